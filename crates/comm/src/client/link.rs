//! One connection of a lane, opened again when it breaks, with the requests in flight on it.
//!
//! One thread at a time reads replies: the thread of a call, for itself and for others, or else the
//! link's own thread. So a call on an idle link costs one write and one read and wakes nobody.
//! A request that was sent over a connection that broke is sent again over the next one, as long as
//! now and then something comes back: connections that break one after the other end its wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use super::shared::{INTERRUPT, Shared};
use crate::connection::{Broken, Connection, lock};
use crate::frame::{Header, Kind};
use crate::{Body, Error, Result};

/// An idle link thread is woken when there is work; this bounds what a bug there could cost.
const IDLE: Duration = Duration::from_secs(60);
/// A link that the server had no room for is not used for so long where there are others.
const REFUSED: Duration = Duration::from_secs(5);
/// Replies to `once` requests are acknowledged at once from this size on, so that the server need not
/// keep them until the next request.
const LARGE: usize = 64 << 10;
/// Pauses between connections that break one after the other: the first, which doubles, and the
/// longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Link {
    shared: Arc<Shared>,
    number: u32,
    state: Mutex<State>,
    /// For threads that wait for a reply or a connection.
    changed: Condvar,
    /// For the link's own thread.
    work: Condvar,
    /// Unanswered requests; read without the lock to choose a link.
    load: AtomicUsize,
    /// Calls that wait as long as the server lives: what comes after them may wait as long.
    long_calls: AtomicUsize,
    /// When the server last had no room for it, in milliseconds of the client's time; 0: never.
    refused_at_ms: AtomicU64,
}

#[derive(Default)]
struct State {
    next: u64,
    flights: BTreeMap<u64, Flight>,
    connection: Option<Arc<Connection>>,
    /// A thread reads; the others wait.
    being_read: bool,
    /// Threads that wait for `changed`.
    waiting: usize,
    /// When a frame came or a ping was sent.
    last: Option<Instant>,
    /// Connections that broke since a frame last came, and when the first of them did.
    broken_in_a_row: u32,
    broken_since: Option<Instant>,
}

impl State {
    /// All `once` requests before the oldest one in flight are answered.
    fn acknowledged(&self) -> u64 {
        let mut once = self
            .flights
            .values()
            .filter(|flight| flight.header.kind == Kind::RequestOnce && flight.outcome.is_none());
        once.next().map_or(self.next, |flight| flight.header.number)
    }
}

impl State {
    /// Whether the server keeps the reply to this request.
    fn is_once(&self, number: u64) -> bool {
        self.flights.get(&number).is_some_and(|flight| flight.header.kind == Kind::RequestOnce)
    }
}

/// A request from its registration until somebody takes its outcome.
struct Flight {
    header: Header,
    /// What to send again; without it the calling thread does that.
    payload: Option<Arc<Body>>,
    since: Instant,
    sent: bool,
    /// Whether it was ever sent: the server may know it by its number.
    tried: bool,
    /// Nobody will ask for the outcome.
    abandoned: bool,
    outcome: Option<Outcome>,
}

enum Outcome {
    Reply(Body),
    Failure(String),
    Cut(String),
    /// It is another link's now, under that number.
    Moved(Arc<Link>, u64),
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
            long_calls: AtomicUsize::new(0),
            refused_at_ms: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&link);
        shared.threads.spawn("link", move || run_link_thread(&weak))?;
        Ok(link)
    }

    pub(super) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// What a request waits for here, for a choice between links: calls without a limit, then all.
    pub(super) fn busyness(&self) -> (usize, usize) {
        (self.long_calls.load(Ordering::Relaxed), self.load())
    }

    /// As [`Link::wait`] until the server is lost; other requests avoid the link meanwhile.
    pub(super) fn wait_until_lost(
        &self,
        number: u64,
        what: &str,
        parts: &[&[u8]],
    ) -> Result<Option<Body>> {
        self.long_calls.fetch_add(1, Ordering::Relaxed);
        let outcome = self.wait(number, what, Some(parts), Until::Lost);
        self.long_calls.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    /// Whether it has a connection.
    pub(super) fn is_connected(&self) -> bool {
        lock(&self.state).connection.is_some()
    }

    /// Whether the server had no room for it a moment ago.
    pub(super) fn is_refused(&self) -> bool {
        let refused_at = self.refused_at_ms.load(Ordering::Relaxed);
        refused_at > 0
            && self.shared.millis().saturating_sub(refused_at) < REFUSED.as_millis() as u64
    }

    /// Gives a request its number.
    pub(super) fn register(&self, method: u16, once: bool, payload: Option<Arc<Body>>) -> u64 {
        let kind = if once { Kind::RequestOnce } else { Kind::Request };
        self.adopt(Flight {
            header: Header { method, ..Header::new(kind) },
            payload,
            since: Instant::now(),
            sent: false,
            tried: false,
            abandoned: false,
            outcome: None,
        })
    }

    fn adopt(&self, mut flight: Flight) -> u64 {
        let mut state = lock(&self.state);
        let number = state.next;
        state.next += 1;
        flight.header.number = number;
        if self.load() == 0 {
            // What broke before nobody waited says nothing about the time of this request.
            (state.broken_in_a_row, state.broken_since) = (0, None);
        }
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
            if let Some((link, there)) = flight.moved() {
                drop(state);
                return self.wait_there(number, what, parts, until, (&link, there));
            }
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
            let left = self.time_left(flight.since, until);
            if left.is_zero() {
                self.remove(state, number);
                let after = self.shared.settings.deadline;
                let request = what.to_string();
                return Err(Error::Deadline { peer: self.shared.name(), request, after });
            }
            let left = match until {
                Until::Within(patience) => left.min(patience.saturating_sub(start.elapsed())),
                Until::Lost | Until::Deadline => left,
            };
            if left.is_zero() {
                return Ok(None);
            }
            let sent = flight.sent;
            let connected = state.connection.is_some();
            state = match parts {
                Some(parts) if connected && !sent => self.send(state, number, parts),
                Some(_) if connected && !state.being_read => self.read_one(state),
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

    /// What the deadline leaves to a request that was sent at `since`.
    fn time_left(&self, since: Instant, until: Until) -> Duration {
        match until {
            Until::Lost => self.shared.settings.deadline,
            Until::Deadline | Until::Within(_) => {
                self.shared.settings.deadline.saturating_sub(since.elapsed())
            }
        }
    }

    /// Waits for a request that was moved to another link.
    fn wait_there(
        &self,
        number: u64,
        what: &str,
        parts: Option<&[&[u8]]>,
        until: Until,
        (link, there): (&Link, u64),
    ) -> Result<Option<Body>> {
        let outcome = link.wait(there, what, parts, until);
        if !matches!(outcome, Ok(None)) {
            lock(&self.state).flights.remove(&number);
        }
        outcome
    }

    /// Whether [`Link::wait`] would return at once.
    pub(super) fn is_ready(&self, number: u64) -> bool {
        let state = lock(&self.state);
        let moved = state.flights.get(&number).and_then(Flight::moved);
        let done = state.flights.get(&number).is_none_or(|flight| flight.outcome.is_some());
        drop(state);
        match moved {
            Some((link, there)) => link.is_ready(there),
            None => done || self.shared.is_over(),
        }
    }

    /// Nobody waits for this request any more; it is still sent until it is answered.
    pub(super) fn abandon(&self, number: u64) {
        let mut state = lock(&self.state);
        if let Some((link, there)) = state.flights.get(&number).and_then(Flight::moved) {
            state.flights.remove(&number);
            drop(state);
            return link.abandon(there);
        }
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
            Outcome::Moved(..) => unreachable!("its other link is asked"),
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
        let acknowledged = state.acknowledged();
        let Some(connection) = state.connection.clone() else { return state };
        let Some(flight) = state.flights.get_mut(&number) else { return state };
        (flight.sent, flight.tried) = (true, true);
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
    fn read_one<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(connection) = state.connection.clone() else { return state };
        state.being_read = true;
        drop(state);
        let received = connection.receive(self.shared.settings.max_frame, &self.shared.pool);
        let mut state = lock(&self.state);
        state.being_read = false;
        match received {
            Ok(Some((header, body))) => {
                self.shared.heard();
                state.last = Some(Instant::now());
                (state.broken_in_a_row, state.broken_since) = (0, None);
                let is_kept = body.len() >= LARGE && state.is_once(header.number);
                self.dispatch(&mut state, &header, body);
                if is_kept {
                    let acknowledged = state.acknowledged();
                    let received = Header { acknowledged, ..Header::new(Kind::Received) };
                    // Where the socket has no room, the next request says it.
                    if connection.try_send(received).is_err() {
                        connection.shutdown();
                    }
                }
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

    /// Lets the link's own thread read for those who are left, if nobody does.
    fn hand_over<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if !state.being_read && self.load() > 0 {
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
        state.broken_in_a_row += 1;
        let since = state.broken_since.get_or_insert_with(Instant::now).elapsed();
        let is_over = state.broken_in_a_row > self.shared.settings.retries
            && since >= self.shared.settings.deadline;
        let mut failed = Vec::new();
        for (number, flight) in &mut state.flights {
            if flight.sent && flight.outcome.is_none() {
                flight.sent = false;
                failed.extend(is_over.then_some(*number));
            }
        }
        if !self.shared.is_over() {
            tracing::debug!("a connection to {} ended: {broken}", self.shared.name());
            for number in failed {
                let problem = format!(
                    "{} connections in a row broke within {:.1} s (`FLAGS_rpc_retry_times`, \
                     `FLAGS_rpc_deadline`): {broken}",
                    state.broken_in_a_row,
                    since.as_secs_f64()
                );
                self.settle(state, number, Outcome::Cut(problem));
            }
        }
        self.changed.notify_all();
        self.work.notify_one();
    }
}

/// The link's own thread: connects, sends again what is kept, reads when no call does.
fn run_link_thread(link: &Weak<Link>) {
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
        if link.load() == 0 || (state.being_read && state.connection.is_some()) {
            let waited = link.work.wait_timeout(state, IDLE);
            drop(waited);
            continue;
        }
        if state.connection.is_some() {
            drop(link.read_one(state));
            continue;
        }
        // One that breaks at once is not opened again and again as fast as the machine can.
        if let Some(after) = state.broken_in_a_row.checked_sub(2) {
            let pause = (SHORTEST_PAUSE * (1 << after.min(8))).min(LONGEST_PAUSE);
            drop(link.work.wait_timeout(state, pause));
        } else {
            drop(state);
        }
        let (connection, is_full) = shared.reopen(link.number, &mut pause);
        if let Some(connection) = connection {
            link.refused_at_ms.store(0, Ordering::Relaxed);
            link.resume(connection);
            continue;
        }
        if is_full {
            link.refused_at_ms.store(shared.millis().max(1), Ordering::Relaxed);
            if let Some(other) = shared.other_link(&link) {
                link.move_to(&other);
                continue;
            }
        }
        if !shared.is_over() {
            let state = lock(&link.state);
            let _waited = link.work.wait_timeout(state, pause);
        }
    }
}

impl Flight {
    fn moved(&self) -> Option<(Arc<Link>, u64)> {
        match &self.outcome {
            Some(Outcome::Moved(link, there)) => Some((link.clone(), *there)),
            _ => None,
        }
    }
}

impl Link {
    pub(super) fn lane(&self) -> usize {
        (self.number >> 16) as usize
    }

    /// The server has no room for this link: what was never sent goes over another one. Its lock is
    /// held until all is there, so that no wait ends in between; the other link never takes this
    /// one's lock, as only links with a connection are moved to.
    fn move_to(&self, other: &Arc<Link>) {
        let mut state = lock(&self.state);
        let mut moved = Vec::new();
        for flight in state.flights.values_mut() {
            if flight.tried || flight.outcome.is_some() {
                continue;
            }
            let there = other.adopt(Flight {
                header: flight.header,
                payload: flight.payload.take(),
                since: flight.since,
                sent: false,
                tried: false,
                abandoned: flight.abandoned,
                outcome: None,
            });
            flight.outcome = Some(Outcome::Moved(other.clone(), there));
            self.load.fetch_sub(1, Ordering::Relaxed);
            moved.push(there);
        }
        // Nobody asks what became of those.
        state.flights.retain(|_, flight| !(flight.abandoned && flight.moved().is_some()));
        drop(state);
        moved.into_iter().for_each(|there| other.send_owned(there));
        self.changed.notify_all();
    }

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

#[cfg(test)]
mod tests;
