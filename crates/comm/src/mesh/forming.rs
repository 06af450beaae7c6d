//! How a mesh forms: listen, connect to the ranks below, wait for those above.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::channel::Channel;
use super::{INTERRUPT, State, door, keep};
use crate::connection::{Connection, lock};
use crate::handshake::{Failed, Hello, Refusal};
use crate::reminder::Reminder;
use crate::transport::Bound;
use crate::{Error, Result};

/// First pause between two attempts to connect; doubles up to [`LONGEST_PAUSE`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

impl State {
    /// Returns when there is a channel to every other rank.
    pub(super) fn form(self: &Arc<State>, bound: Option<Bound>) -> Result<()> {
        if self.place.endpoints.len() > 1 {
            let bound = match bound {
                Some(bound) => bound,
                None => self.dialer.transport().listen(&self.place.endpoints[self.place.rank])?,
            };
            let listeners: Vec<Arc<_>> = bound.listeners.into_iter().map(Arc::from).collect();
            let _ = self.listeners.set(listeners.clone());
            for listener in listeners {
                let state = self.clone();
                self.threads.spawn("accept", move || door::accept(&state, &*listener))?;
            }
            let state = self.clone();
            self.threads.spawn("mesh", move || keep(&state))?;
        }
        for rank in 0..self.place.rank {
            self.reach(rank)?;
        }
        self.await_others()?;
        self.stop_listening();
        Ok(())
    }

    /// Takes a connection that has proven itself as the channel to a rank; false if there is one.
    pub(super) fn add(self: &Arc<State>, rank: usize, connection: Arc<Connection>) -> Result<bool> {
        let channel = Arc::new(Channel::new(self, rank, connection));
        if self.channels[rank].set(channel.clone()).is_err() {
            return Ok(false);
        }
        let state = self.clone();
        self.threads.spawn("read", move || channel.read(&state))?;
        drop(lock(&self.forming));
        self.changed.notify_all();
        Ok(true)
    }

    fn reach(self: &Arc<State>, rank: usize) -> Result<()> {
        let deadline = self.settings.deadline;
        let (mut pause, mut reminder) = (SHORTEST_PAUSE, Reminder::new(self.start));
        loop {
            let left = deadline.saturating_sub(self.start.elapsed());
            let timeout = self.settings.handshake.min(left).max(Duration::from_millis(1));
            let problem = match self.open(rank, timeout) {
                Ok(connection) => {
                    self.add(rank, connection)?;
                    return Ok(());
                }
                // Another group may be there still, or may end soon.
                Err(Failed::Refused(Refusal::Full | Refusal::Late | Refusal::Session, why, _)) => {
                    why
                }
                Err(Failed::Refused(_, problem, _) | Failed::Other(problem)) => {
                    return Err(Error::Refused { peer: self.name(rank), problem });
                }
                Err(Failed::Broken(problem) | Failed::ConnectionRefused(problem)) => problem,
            };
            if self.start.elapsed() + pause >= deadline {
                return Err(self.missing(rank, &problem));
            }
            if reminder.is_due() {
                tracing::warn!("{} is waiting for {}: {problem}", self.me(), self.name(rank));
            }
            self.check_waiting(rank)?;
            self.pause(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn open(&self, rank: usize, timeout: Duration) -> std::result::Result<Arc<Connection>, Failed> {
        let endpoint = &self.place.endpoints[rank];
        let broken = |error: std::io::Error| Failed::Broken(error.to_string());
        let hello = Hello {
            nonce: [0; 32],
            me: self.me(),
            peer: self.identity(rank),
            session: self.place.session,
            link: 0,
            resume: false,
            max_frame: self.settings.max_frame as u64,
        };
        let (connection, _) = self.dialer.open(endpoint, &hello, timeout, &self.pool)?;
        connection.stream().set_write_timeout(Some(self.tick())).map_err(broken)?;
        connection.stream().set_read_timeout(None).map_err(broken)?;
        Ok(connection)
    }

    fn await_others(&self) -> Result<()> {
        let mut reminder = Reminder::new(self.start);
        loop {
            let missing = (0..self.channels.len())
                .find(|rank| *rank != self.place.rank && self.channels[*rank].get().is_none());
            let Some(rank) = missing else { return Ok(()) };
            self.check_waiting(rank)?;
            let left = self.settings.deadline.saturating_sub(self.start.elapsed());
            if left.is_zero() {
                let refused = lock(&self.forming).refused.clone();
                return Err(self.missing(rank, refused.as_deref().unwrap_or("it did not come")));
            }
            if reminder.is_due() {
                tracing::warn!("{} is waiting for {}", self.me(), self.name(rank));
            }
            let forming = lock(&self.forming);
            let arrived = self.channels[rank].get().is_some();
            if !arrived && forming.gone.is_none() {
                drop(self.changed.wait_timeout(forming, left.min(INTERRUPT)));
            }
        }
    }

    /// An error if waiting makes no sense any more.
    fn check_waiting(&self, rank: usize) -> Result<()> {
        if self.is_interrupted() {
            let request = "a connection".to_string();
            return Err(Error::Interrupted { peer: self.name(rank), request });
        }
        match &lock(&self.forming).gone {
            None => Ok(()),
            Some((gone, why)) => {
                let problem = format!("{why}, while {} was awaited", self.name(rank));
                Err(Error::Lost { peer: self.name(*gone), problem })
            }
        }
    }

    fn missing(&self, rank: usize, problem: &str) -> Error {
        let absent = (0..self.channels.len())
            .filter(|other| *other != self.place.rank && *other != rank)
            .filter(|other| self.channels.get(*other).and_then(OnceLock::get).is_none())
            .map(|other| self.name(other));
        let absent: Vec<_> = absent.collect();
        let others = match absent.is_empty() {
            true => String::new(),
            false => format!("; also missing: {}", absent.join(", ")),
        };
        let problem = format!(
            "no connection within {:.1} s (`FLAGS_rpc_deadline`): {problem}{others}",
            self.settings.deadline.as_secs_f64()
        );
        Error::Lost { peer: self.name(rank), problem }
    }
}
