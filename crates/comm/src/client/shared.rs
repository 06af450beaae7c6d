//! What the links and the keeper of a client share: whom they talk to, how to open a connection,
//! when the server was last heard of, and why the client is at its end, if it is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::link::Link;
use crate::body::Pool;
use crate::connection::{Connection, lock};
use crate::dial::Dialer;
use crate::frame::{Kind, MAX_STRANGER_BODY};
use crate::handshake::{self, CONTROL, Failed, Hello, Refusal};
use crate::reminder::Reminder;
use crate::threads::Threads;
use crate::{Error, Identity, Lane, Result, Settings, Transport};

/// First pause between two attempts to connect; doubles up to [`LONGEST_PAUSE`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Between two questions whether the user wants to stop.
pub(super) const INTERRUPT: Duration = Duration::from_millis(100);
/// Attempts in a row that find nothing listening before the server is given up.
const REFUSALS: u32 = 5;

pub(super) struct Shared {
    dialer: Dialer,
    pub(super) endpoint: String,
    me: Identity,
    pub(super) peer: Identity,
    pub(super) settings: Settings,
    session: u64,
    /// The server's life that this session belongs to; 0 until the first welcome.
    incarnation: AtomicU64,
    /// Largest body that the server takes.
    max_request: AtomicU64,
    pub(super) pool: Arc<Pool>,
    start: Instant,
    /// Milliseconds from `start` to the last frame of the server.
    heard: AtomicU64,
    /// Since when nothing listens there, and how many attempts have found that.
    refused_since: Mutex<Option<(Instant, u32)>>,
    end: Mutex<Option<End>>,
    over: AtomicBool,
    lanes: [Mutex<Vec<Arc<Link>>>; 3],
    /// Requests without an answer.
    pending: Mutex<usize>,
    answered: Condvar,
    pub(super) threads: Arc<Threads>,
    /// What the keeper is asked to do.
    pub(super) orders: Mutex<Orders>,
    pub(super) ordered: Condvar,
    /// The keeper's connection, to be ended when the client closes.
    pub(super) control: Mutex<Option<Arc<Connection>>>,
}

#[derive(Default, PartialEq, Eq, Clone, Copy, Debug)]
pub(super) enum Orders {
    #[default]
    Beat,
    /// Say goodbye, then stop.
    Goodbye,
    Stopped,
}

/// Why nothing more can be asked.
#[derive(Clone)]
pub(super) enum End {
    Lost(String),
    Refused(String),
    Closed,
}

impl Shared {
    pub(super) fn connect(
        transport: Arc<dyn Transport>,
        endpoint: &str,
        me: Identity,
        peer: Identity,
        settings: Settings,
    ) -> Result<(Arc<Shared>, Arc<Connection>)> {
        settings.check()?;
        let shared = Arc::new(Shared {
            dialer: Dialer::new(transport, &settings)?,
            endpoint: endpoint.to_string(),
            me,
            peer,
            settings,
            session: handshake::random(),
            incarnation: AtomicU64::new(0),
            max_request: AtomicU64::new(0),
            pool: Arc::default(),
            start: Instant::now(),
            heard: AtomicU64::new(0),
            refused_since: Mutex::new(None),
            end: Mutex::new(None),
            over: AtomicBool::new(false),
            lanes: Default::default(),
            pending: Mutex::new(0),
            answered: Condvar::new(),
            threads: Arc::default(),
            orders: Mutex::default(),
            ordered: Condvar::new(),
            control: Mutex::new(None),
        });
        let control = shared.connect_first()?;
        Ok((shared, control))
    }

    fn connect_first(&self) -> Result<Arc<Connection>> {
        let deadline = self.settings.deadline;
        let (mut pause, mut reminder) = (SHORTEST_PAUSE, Reminder::new(self.start));
        // What the server said tells more than that the last try was cut short by the deadline.
        let mut refusal = None;
        loop {
            // A busy machine may sleep beyond the deadline.
            let left = deadline.saturating_sub(self.start.elapsed()).max(SHORTEST_PAUSE);
            let problem = match self.open(CONTROL, self.settings.handshake.min(left)) {
                Ok(connection) => return Ok(connection),
                // A server that is closing may be replaced by another one.
                Err(Failed::Refused(
                    Refusal::Full | Refusal::Late | Refusal::Session,
                    problem,
                    _,
                )) => {
                    refusal = Some(problem.clone());
                    problem
                }
                Err(Failed::Refused(_, problem, _) | Failed::Other(problem)) => {
                    return Err(Error::Refused { peer: self.name(), problem });
                }
                Err(Failed::Broken(problem) | Failed::ConnectionRefused(problem)) => problem,
            };
            if self.start.elapsed() + pause >= deadline {
                let problem = refusal.unwrap_or(problem);
                let problem = format!(
                    "no connection within {:.1} s (`FLAGS_rpc_deadline`): {problem}",
                    deadline.as_secs_f64()
                );
                return Err(Error::Lost { peer: self.name(), problem });
            }
            if reminder.is_due() {
                tracing::warn!(
                    "{} is waiting for {}: {problem} ({:.0} s of {:.0} s, `FLAGS_rpc_deadline`)",
                    self.me,
                    self.name(),
                    self.start.elapsed().as_secs_f64(),
                    deadline.as_secs_f64()
                );
            }
            if self.is_interrupted() {
                return Err(self.interruption("a connection"));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Opens a connection of this session, once.
    pub(super) fn open(
        &self,
        link: u32,
        timeout: Duration,
    ) -> std::result::Result<Arc<Connection>, Failed> {
        let broken = |error: std::io::Error| Failed::Broken(error.to_string());
        let known = self.incarnation.load(Ordering::Acquire);
        let hello = Hello {
            nonce: [0; 32],
            me: self.me,
            peer: self.peer,
            session: self.session,
            link,
            resume: known != 0,
            max_frame: self.settings.max_frame as u64,
        };
        let (connection, welcome) =
            self.dialer.open(&self.endpoint, &hello, timeout, &self.pool)?;
        if known != 0 && welcome.incarnation != known {
            let problem = "another process answers there".to_string();
            return Err(Failed::Refused(Refusal::Session, problem, welcome.incarnation));
        }
        self.max_request.store(welcome.max_frame, Ordering::Relaxed);
        self.incarnation.store(welcome.incarnation, Ordering::Release);
        let stream = connection.stream();
        stream.set_write_timeout(Some(self.settings.heartbeat_timeout)).map_err(broken)?;
        stream.set_read_timeout(Some(self.tick())).map_err(broken)?;
        self.heard();
        Ok(connection)
    }

    /// Opens a connection again; none yet: try again after a pause. The second says whether the
    /// server has no room for it.
    pub(super) fn reopen(
        &self,
        link: u32,
        pause: &mut Duration,
    ) -> (Option<Arc<Connection>>, bool) {
        let left = self.settings.heartbeat_timeout.saturating_sub(self.silence());
        let timeout = self.settings.handshake.min(left).max(Duration::from_millis(10));
        let mut is_full = false;
        let opened = self.open(link, timeout);
        if !matches!(opened, Err(Failed::ConnectionRefused(_))) {
            *lock(&self.refused_since) = None;
        }
        let problem = match opened {
            Ok(connection) => {
                *pause = SHORTEST_PAUSE;
                return (Some(connection), false);
            }
            Err(Failed::ConnectionRefused(problem)) => {
                if self.is_gone() {
                    // Perhaps it has said why, and nobody has looked since.
                    let control = lock(&self.control).clone();
                    control.iter().for_each(|control| self.heed_last_words(control));
                    self.finish(End::Lost(format!("nothing listens there any more ({problem})")));
                    return (None, false);
                }
                problem
            }
            Err(Failed::Refused(Refusal::Session, problem, incarnation)) => {
                let known = self.incarnation.load(Ordering::Acquire);
                let restarted = incarnation != 0 && incarnation != known;
                let problem = if restarted { "it was restarted".into() } else { problem };
                self.finish(End::Lost(problem));
                return (None, false);
            }
            Err(Failed::Refused(
                Refusal::Secret | Refusal::Version | Refusal::Identity,
                problem,
                _,
            )) => {
                self.finish(End::Refused(problem));
                return (None, false);
            }
            Err(Failed::Other(problem)) => {
                self.finish(End::Refused(problem));
                return (None, false);
            }
            // The server is alive, if busy.
            Err(Failed::Refused(Refusal::Full, problem, _)) => {
                self.heard();
                is_full = true;
                problem
            }
            Err(Failed::Refused(_, problem, _) | Failed::Broken(problem)) => problem,
        };
        self.check_alive(&problem);
        *pause = (*pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        (None, is_full)
    }

    /// The server said why it ends.
    pub(super) fn ended(&self, why: &[u8]) {
        let why = String::from_utf8_lossy(why);
        // A server that names itself is not named twice.
        let bare = why.strip_prefix(&format!("{}: ", self.peer)).unwrap_or(&why);
        self.finish(End::Lost(bare.to_owned()));
    }

    /// Reads what the server wrote on the connection of heartbeats before that ended.
    pub(super) fn heed_last_words(&self, control: &Connection) {
        while let Ok(Some((header, body))) = control.receive(MAX_STRANGER_BODY, &self.pool) {
            if header.kind == Kind::Refused {
                return self.ended(&body);
            }
        }
    }

    /// Whether enough attempts in a row have found nothing that listens, and nothing came meanwhile:
    /// the process is gone, and its heartbeats need not be waited for.
    fn is_gone(&self) -> bool {
        let mut refused_since = lock(&self.refused_since);
        // A connection that still answers shows that it lives, whoever refuses new ones.
        refused_since.take_if(|(since, _)| self.silence() < since.elapsed());
        let (since, attempts) = refused_since.get_or_insert_with(|| (Instant::now(), 0));
        *attempts += 1;
        // Whoever says goodbye has nothing to lose.
        *attempts >= REFUSALS
            && since.elapsed() >= self.settings.heartbeat_timeout / 8
            && *lock(&self.orders) == Orders::Beat
    }

    /// Ends the client if the server was silent for too long.
    pub(super) fn check_alive(&self, problem: &str) {
        let silence = self.silence();
        if silence >= self.settings.heartbeat_timeout {
            let silence = silence.as_secs_f64();
            let problem = match problem {
                "" => format!("no heartbeat for {silence:.1} s"),
                problem => format!("no heartbeat for {silence:.1} s ({problem})"),
            };
            self.finish(End::Lost(problem));
        }
    }

    /// The client's time.
    pub(super) fn millis(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    pub(super) fn heard(&self) {
        self.heard.store(self.millis(), Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(heard)
    }

    /// How long a thread reads before it looks whether its time is up.
    pub(super) fn tick(&self) -> Duration {
        let longest = self.slice(Duration::from_millis(500).min(self.settings.heartbeat));
        (self.settings.deadline / 8).min(longest).max(Duration::from_millis(5))
    }

    /// The part of a wait after which the user is asked.
    pub(super) fn slice(&self, wait: Duration) -> Duration {
        if self.settings.interrupt.is_some() { wait.min(INTERRUPT) } else { wait }
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.settings.interrupt.as_ref().is_some_and(|interrupt| interrupt.is_wanted())
    }

    pub(super) fn interruption(&self, what: &str) -> Error {
        Error::Interrupted { peer: self.name(), request: what.to_string() }
    }

    /// Role, rank and endpoint of the server.
    pub(super) fn name(&self) -> String {
        format!("{} ({})", self.peer, self.endpoint)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The error of a request that cannot be answered any more.
    pub(super) fn end_error(&self, what: &str) -> Error {
        let peer = self.name();
        match lock(&self.end).clone() {
            Some(End::Lost(problem)) => {
                Error::Lost { peer, problem: format!("{problem}, while waiting for {what}") }
            }
            Some(End::Refused(problem)) => Error::Refused { peer, problem },
            Some(End::Closed) | None => Error::Closed { peer },
        }
    }

    /// Makes all requests fail, now and later; the first reason counts.
    pub(super) fn finish(&self, end: End) {
        {
            let mut reason = lock(&self.end);
            if reason.is_some() {
                return;
            }
            if let End::Lost(problem) | End::Refused(problem) = &end {
                tracing::warn!("{} lost {}: {problem}", self.me, self.name());
            }
            *reason = Some(end);
            self.over.store(true, Ordering::Release);
        }
        *lock(&self.orders) = Orders::Stopped;
        self.ordered.notify_all();
        if let Some(control) = &*lock(&self.control) {
            control.shutdown();
        }
        for lane in &self.lanes {
            let links = lock(lane).clone();
            links.iter().for_each(|link| link.interrupt());
        }
        drop(lock(&self.pending));
        self.answered.notify_all();
    }

    pub(super) fn close(&self) {
        self.finish(End::Closed);
        // The links hold this, and this holds them.
        self.lanes.iter().for_each(|lane| lock(lane).clear());
    }

    /// Asks the keeper to say goodbye and waits until it has, at most for the handshake's time.
    pub(super) fn say_goodbye(&self) {
        let end = Instant::now() + self.settings.handshake;
        let mut orders = lock(&self.orders);
        if *orders == Orders::Beat {
            *orders = Orders::Goodbye;
        }
        self.ordered.notify_all();
        while *orders == Orders::Goodbye && !self.is_over() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            orders = self
                .ordered
                .wait_timeout(orders, left)
                .unwrap_or_else(|poison| poison.into_inner())
                .0;
        }
    }

    pub(super) fn check_size(&self, what: &str, parts: &[&[u8]]) -> Result<()> {
        let length: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let allowed = self.max_request.load(Ordering::Relaxed);
        let limit = allowed.min(self.settings.max_frame as u64);
        if length <= limit {
            return Ok(());
        }
        Err(Error::Protocol {
            peer: self.me.to_string(),
            problem: format!(
                "{what} with {length} bytes, but a frame has at most {limit}: split it"
            ),
        })
    }

    /// Waits until fewer than `max_pending` requests are unanswered, and counts one more.
    pub(super) fn reserve(&self, what: &str) -> Result<()> {
        let end = Instant::now() + self.settings.deadline;
        let mut pending = lock(&self.pending);
        loop {
            if self.is_over() {
                return Err(self.end_error(what));
            }
            if *pending < self.settings.max_pending {
                *pending += 1;
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Deadline {
                    peer: self.name(),
                    request: format!("{} requests before {what}", self.settings.max_pending),
                    after: self.settings.deadline,
                });
            }
            drop(self.answered.wait_timeout(pending, self.slice(left)));
            if self.is_interrupted() {
                return Err(self.interruption(what));
            }
            pending = lock(&self.pending);
        }
    }

    pub(super) fn release(&self) {
        let mut pending = lock(&self.pending);
        *pending -= 1;
        if *pending + 1 == self.settings.max_pending {
            self.answered.notify_all();
        }
    }

    /// Another link of the same lane that has a connection, the one with the least to wait for.
    pub(super) fn other_link(&self, link: &Link) -> Option<Arc<Link>> {
        let links = lock(&self.lanes[link.lane()]).clone();
        let others = links.into_iter().filter(|other| !std::ptr::eq(&**other, link));
        others.filter(|other| other.is_connected()).min_by_key(|other| other.busyness())
    }

    pub(super) fn pick(self: &Arc<Self>, lane: Lane) -> Result<Arc<Link>> {
        let limit = match lane {
            Lane::Send => self.settings.send_connections,
            Lane::Get => self.settings.get_connections,
            Lane::Prefetch => self.settings.prefetch_connections,
        };
        let mut links = lock(&self.lanes[lane as usize]);
        // A closed client has let go of its links.
        if self.is_over() {
            return Err(self.end_error("a connection"));
        }
        let least = links.iter().min_by_key(|link| (link.is_refused(), link.busyness()));
        let is_full = links.iter().any(|link| link.is_refused());
        match least {
            Some(link) if link.load() == 0 || links.len() >= limit || is_full => Ok(link.clone()),
            _ => {
                let number = (lane as u32) << 16 | links.len() as u32;
                let link = Link::start(self, number)?;
                links.push(link.clone());
                Ok(link)
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
