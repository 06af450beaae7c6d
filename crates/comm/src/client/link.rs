//! One connection of a lane, opened again when it breaks, with the requests in flight on it.
//!
//! One thread at a time reads replies: the thread of a call, for itself and for others, or else the
//! link's own tender. So a call on an idle link costs one write and one read and wakes nobody.
//! A request that was sent over a connection that broke is sent again over the next one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use super::shared::{INTERRUPT, Shared};
use crate::connection::{Broken, Connection, lock};
use crate::frame::{Header, Kind};
use crate::{Body, Error, Result};

/// An idle tender is woken when there is work; this bounds what a bug there could cost.
const IDLE: Duration = Duration::from_secs(60);

pub(super) struct Link {
    shared: Arc<Shared>,
    number: u32,
    state: Mutex<State>,
    /// For threads that wait for a reply or a connection.
    changed: Condvar,
    /// For the tender.
    work: Condvar,
    /// Unanswered requests; read without the lock to choose a link.
    load: AtomicUsize,
}

#[derive(Default)]
struct State {
    next: u64,
    flights: BTreeMap<u64, Flight>,
    connection: Option<Arc<Connection>>,
    /// A thread reads; the others wait.
    led: bool,
    /// Threads that wait for `changed`.
    waiting: usize,
    /// When a frame came or a ping was sent.
    last: Option<Instant>,
}

/// A request from its registration until somebody takes its outcome.
struct Flight {
    header: Header,
    /// What to send again; without it the calling thread does that.
    payload: Option<Arc<Body>>,
    since: Instant,
    sent: bool,
    /// Connections that broke under it.
    cuts: u32,
    /// Nobody will ask for the outcome.
    abandoned: bool,
    outcome: Option<Outcome>,
}

enum Outcome {
    Reply(Body),
    Failure(String),
    Cut(String),
}

/// How long a reply is waited for; a server that is lost ends every wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// Until the deadline that began with the request.
    Deadline,
    /// As long as this, and not beyond the deadline.
    Within(Duration),
    /// As long as the server shows signs of life.
    Lost,
}

impl Link {
    pub(super) fn start(shared: &Arc<Shared>, number: u32) -> Result<Arc<Link>> {
        let link = Arc::new(Link {
            shared: shared.clone(),
            number,
            state: Mutex::new(State { next: 1, ..State::default() }),
            changed: Condvar::new(),
            work: Condvar::new(),
            load: AtomicUsize::new(0),
        });
        let tended = Arc::downgrade(&link);
        shared.threads.spawn("link", move || tend(&tended))?;
        Ok(link)
    }

    pub(super) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// Gives a request its number.
    pub(super) fn register(&self, method: u16, once: bool, payload: Option<Arc<Body>>) -> u64 {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        let kind = if once { Kind::RequestOnce } else { Kind::Request };
        let header = Header { method, number, ..Header::new(kind) };
        let flight = Flight {
            header,
            payload,
            since: Instant::now(),
            sent: false,
            cuts: 0,
            abandoned: false,
            outcome: None,
        };
        state.flights.insert(number, flight);
        self.load.fetch_add(1, Ordering::Relaxed);
        if state.connection.is_none() {
            self.work.notify_one();
        }
        number
    }

    /// Sends a request whose bytes are kept, if there is a connection, and has its reply read.
    pub(super) fn send_owned(&self, number: u64) {
        let state = lock(&self.state);
        let payload = state.flights.get(&number).and_then(|flight| flight.payload.clone());
        if let Some(payload) = payload {
            let mut state = self.send(state, number, &[&payload]);
            state = self.hand_over(state);
            drop(state);
        }
    }

    /// Waits for the outcome of a request; none where [`Until::Within`] is over before. `parts` are
    /// the request's bytes where they are not kept.
    pub(super) fn wait(
        &self,
        number: u64,
        what: &str,
        parts: Option<&[&[u8]]>,
        until: Until,
    ) -> Result<Option<Body>> {
        let start = Instant::now();
        // Fast replies are not to pay for the question.
        let mut question = start + INTERRUPT / 2;
        let mut state = lock(&self.state);
        loop {
            let flight =
                state.flights.get_mut(&number).expect("a flight until its outcome is taken");
            if let Some(outcome) = flight.outcome.take() {
                state.flights.remove(&number);
                drop(self.hand_over(state));
                return self.result(outcome, what).map(Some);
            }
            if self.shared.is_over() {
                self.remove(state, number);
                return Err(self.shared.end_error(what));
            }
            if Instant::now() >= question {
                // The answer may need locks of the user's own, so none is held here.
                drop(state);
                let interrupted = self.shared.is_interrupted();
                question = Instant::now() + INTERRUPT / 2;
                state = lock(&self.state);
                if interrupted {
                    self.remove(state, number);
                    return Err(self.shared.interruption(what));
                }
                continue;
            }
            let mut left = match until {
                Until::Lost => self.shared.settings.deadline,
                Until::Deadline | Until::Within(_) => {
                    self.shared.settings.deadline.saturating_sub(flight.since.elapsed())
                }
            };
            if left.is_zero() {
                self.remove(state, number);
                let after = self.shared.settings.deadline;
                let request = what.to_string();
                return Err(Error::Deadline { peer: self.shared.name(), request, after });
            }
            if let Until::Within(patience) = until {
                left = left.min(patience.saturating_sub(start.elapsed()));
                if left.is_zero() {
                    return Ok(None);
                }
            }
            let sent = flight.sent;
            let connected = state.connection.is_some();
            state = match parts {
                Some(parts) if connected && !sent => self.send(state, number, parts),
                Some(_) if connected && !state.led => self.lead(state),
                _ => {
                    state.waiting += 1;
                    let waited = self.changed.wait_timeout(state, self.shared.slice(left));
                    let mut state = waited.unwrap_or_else(|poison| poison.into_inner()).0;
                    state.waiting -= 1;
                    state
                }
            };
        }
    }

    /// Whether [`Link::wait`] would return at once.
    pub(super) fn is_ready(&self, number: u64) -> bool {
        let state = lock(&self.state);
        let done = state.flights.get(&number).is_none_or(|flight| flight.outcome.is_some());
        done || self.shared.is_over()
    }

    /// Nobody waits for this request any more; it is still sent until it is answered.
    pub(super) fn abandon(&self, number: u64) {
        let mut state = lock(&self.state);
        match state.flights.get_mut(&number) {
            Some(flight) if flight.outcome.is_none() && !self.shared.is_over() => {
                flight.abandoned = true;
            }
            Some(_) => self.remove(state, number),
            None => {}
        }
    }

    /// Wakes everybody to look why.
    pub(super) fn interrupt(&self) {
        let state = lock(&self.state);
        if let Some(connection) = &state.connection {
            connection.shutdown();
        }
        self.changed.notify_all();
        self.work.notify_all();
    }

    fn remove(&self, mut state: MutexGuard<'_, State>, number: u64) {
        if let Some(flight) = state.flights.remove(&number)
            && flight.outcome.is_none()
        {
            self.load.fetch_sub(1, Ordering::Relaxed);
            self.shared.release();
        }
        drop(self.hand_over(state));
    }

    fn result(&self, outcome: Outcome, what: &str) -> Result<Body> {
        let peer = self.shared.name();
        match outcome {
            Outcome::Reply(body) => Ok(body),
            Outcome::Failure(problem) => {
                // A server that names itself is not named twice.
                let bare = problem.strip_prefix(&peer).and_then(|rest| rest.strip_prefix(": "));
                let problem = bare.map(str::to_owned).unwrap_or(problem);
                Err(Error::Remote { peer, problem })
            }
            Outcome::Cut(problem) => {
                Err(Error::Lost { peer, problem: format!("{problem}, while waiting for {what}") })
            }
        }
    }

    /// Sends a request over the connection there is; the lock is not held meanwhile.
    fn send<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        number: u64,
        parts: &[&[u8]],
    ) -> MutexGuard<'a, State> {
        // All `once` requests before the oldest one in flight are answered.
        let next = state.next;
        let mut once = state
            .flights
            .values()
            .filter(|flight| flight.header.kind == Kind::RequestOnce && flight.outcome.is_none());
        let acknowledged = once.next().map_or(next, |flight| flight.header.number);
        let Some(connection) = state.connection.clone() else { return state };
        let Some(flight) = state.flights.get_mut(&number) else { return state };
        flight.sent = true;
        let header = Header { acknowledged, ..flight.header };
        state.last = Some(Instant::now());
        drop(state);
        let sent = connection.send(header, parts);
        let mut state = lock(&self.state);
        if let Err(error) = sent {
            self.broke(&mut state, &connection, &Broken::Io(error));
        }
        state
    }

    /// Reads one frame, or for one tick, and hands it to the thread that waits for it.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(connection) = state.connection.clone() else { return state };
        state.led = true;
        drop(state);
        let received = connection.receive(self.shared.settings.max_frame, &self.shared.pool);
        let mut state = lock(&self.state);
        state.led = false;
        match received {
            Ok(Some((header, body))) => {
                self.shared.heard();
                state.last = Some(Instant::now());
                self.dispatch(&mut state, &header, body);
            }
            Ok(None) => {
                let heartbeat = self.shared.settings.heartbeat;
                if state.last.is_none_or(|last| last.elapsed() >= heartbeat) {
                    state.last = Some(Instant::now());
                    // Must not wait for the socket: this thread is the one that reads.
                    if connection.try_send(Header::new(Kind::Ping)).is_err() {
                        connection.shutdown();
                    }
                }
            }
            Err(broken) => self.broke(&mut state, &connection, &broken),
        }
        state
    }

    fn dispatch(&self, state: &mut State, header: &Header, body: Body) {
        let outcome = match header.kind {
            Kind::Reply => Outcome::Reply(body),
            Kind::Failure => Outcome::Failure(String::from_utf8_lossy(&body).into_owned()),
            _ => return,
        };
        self.settle(state, header.number, outcome);
    }

    /// A request has its outcome; a reply that nobody asked for is the echo of an older attempt.
    fn settle(&self, state: &mut State, number: u64, outcome: Outcome) {
        let Some(flight) = state.flights.get_mut(&number) else { return };
        if flight.outcome.is_some() {
            return;
        }
        if flight.abandoned {
            state.flights.remove(&number);
        } else {
            flight.payload = None;
            flight.outcome = Some(outcome);
        }
        self.load.fetch_sub(1, Ordering::Relaxed);
        self.shared.release();
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Lets the tender read for those who are left, if nobody does.
    fn hand_over<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if !state.led && self.load() > 0 {
            self.work.notify_one();
        }
        state
    }

    /// A connection cannot be used any more: its requests must be sent again.
    fn broke(&self, state: &mut State, connection: &Arc<Connection>, broken: &Broken) {
        connection.shutdown();
        if !state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            return;
        }
        state.connection = None;
        let retries = self.shared.settings.retries;
        let mut failed = Vec::new();
        for (number, flight) in &mut state.flights {
            if flight.sent && flight.outcome.is_none() {
                flight.sent = false;
                flight.cuts += 1;
                if flight.cuts > retries {
                    failed.push(*number);
                }
            }
        }
        if !self.shared.is_over() {
            tracing::debug!("a connection to {} ended: {broken}", self.shared.name());
            for number in failed {
                let cuts = retries + 1;
                let problem =
                    format!("{cuts} connections broke (`FLAGS_rpc_retry_times`): {broken}");
                self.settle(state, number, Outcome::Cut(problem));
            }
        }
        self.changed.notify_all();
        self.work.notify_one();
    }
}

/// The link's own thread: connects, sends again what is kept, reads when no call does.
fn tend(link: &Weak<Link>) {
    let mut pause = Duration::ZERO;
    while let Some(link) = link.upgrade() {
        let shared = &link.shared;
        let state = lock(&link.state);
        if shared.is_over() {
            return;
        }
        let deadline = shared.settings.deadline;
        let late = |flight: &Flight| flight.abandoned && flight.since.elapsed() > deadline;
        let late = state.flights.iter().find(|(_, flight)| late(flight)).map(|(number, _)| *number);
        if let Some(number) = late {
            link.remove(state, number);
            continue;
        }
        if link.load() == 0 || (state.led && state.connection.is_some()) {
            let waited = link.work.wait_timeout(state, IDLE);
            drop(waited);
            continue;
        }
        if state.connection.is_some() {
            drop(link.lead(state));
            continue;
        }
        drop(state);
        if let Some(connection) = shared.reopen(link.number, &mut pause) {
            link.resume(connection);
        } else if !shared.is_over() {
            let state = lock(&link.state);
            let _waited = link.work.wait_timeout(state, pause);
        }
    }
}

impl Link {
    /// Uses a new connection, and sends again over it what is kept.
    fn resume(&self, connection: Arc<Connection>) {
        let mut state = lock(&self.state);
        // Who ended the client before this lock did not see the connection.
        if self.shared.is_over() {
            connection.shutdown();
        }
        state.connection = Some(connection.clone());
        state.last = Some(Instant::now());
        self.changed.notify_all();
        loop {
            let unsent = state.flights.iter().find_map(|(number, flight)| {
                let payload = flight.payload.clone().filter(|_| !flight.sent)?;
                Some((*number, payload))
            });
            let Some((number, payload)) = unsent else { return };
            state = self.send(state, number, &[&payload]);
            if state.connection.is_none() {
                return;
            }
        }
    }
}
