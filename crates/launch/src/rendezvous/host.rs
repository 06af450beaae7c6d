//! The board behind a server of `comm`: requests of nodes go in, kept replies go out when the log
//! grows. A thread lets time pass for the board.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use bireme_comm::{Body, Error, Handler, Identity, Peer, Reply, Role, Server, Settings, Transport};

use super::board::{self, Board, Joining};
use super::message::{Card, Request, decode, encode};

/// Between two looks at the clock.
const TICK: Duration = Duration::from_millis(100);

/// Who a host is for `comm`; members are too, as they have no rank before the job starts.
pub(super) const IDENTITY: Identity = Identity { role: Role::Other, rank: 0 };

/// The node's part as host; stops when dropped.
pub(super) struct Host {
    server: Arc<Server>,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// The log grew, or a member left.
    changed: Condvar,
    closing: AtomicBool,
    /// After which silence a node is lost.
    silence: Duration,
    /// After which silence it may be.
    suspicious: Duration,
    /// How long a second node with the same address waits for the first one to be lost.
    patience: Duration,
}

struct State {
    board: Board,
    /// Nodes that wait for the log to grow: their sessions, what they have seen, and where to answer.
    watching: Vec<(u64, usize, Reply)>,
    /// Nodes whose address is taken.
    twice: Vec<(u64, Card, Instant, Reply)>,
}

impl Host {
    /// Listens at `endpoint`.
    pub(super) fn start(
        transport: &Arc<dyn Transport>,
        endpoint: &str,
        settings: &Settings,
        board: Board,
    ) -> Result<Host, Error> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State { board, watching: Vec::new(), twice: Vec::new() }),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            silence: settings.heartbeat_timeout,
            suspicious: settings.heartbeat.mul_f64(2.5),
            patience: settings.heartbeat_timeout + settings.heartbeat * 2,
        });
        let handler = Arc::new(Desk(shared.clone()));
        let transport = transport.clone();
        let server = Server::start(transport, endpoint, IDENTITY, settings.clone(), handler)?;
        let server = Arc::new(server);
        let (ticking, watched) = (shared.clone(), Arc::downgrade(&server));
        std::thread::Builder::new()
            .name("rendezvous".into())
            .spawn(move || tick(&ticking, &watched))
            .map_err(|source| Error::Io { what: "cannot start a thread".into(), source })?;
        Ok(Host { server, shared })
    }

    /// Where it listens, with the real port.
    pub(super) fn endpoint(&self) -> &str {
        self.server.endpoint()
    }

    /// Waits until every member but this one has left or is lost; false when `patience` was not
    /// enough.
    pub(super) fn wait_for_others(&self, own_session: u64, patience: Duration) -> bool {
        let state = self.shared.lock();
        let here = |state: &mut State| !state.board.only_left(own_session);
        let waited = self.shared.changed.wait_timeout_while(state, patience, here);
        !waited.unwrap_or_else(|poison| poison.into_inner()).1.timed_out()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.server.shutdown();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Changes the board and tells those who watch.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let answers = state.answers();
        drop(state);
        self.changed.notify_all();
        // After the lock: a slow node must not hold up the others.
        for (reply, bytes) in answers {
            reply.send(&[&bytes]);
        }
    }
}

impl State {
    /// What those who watch are to be told, if the log is longer than what they have seen.
    fn answers(&mut self) -> Vec<(Reply, Vec<u8>)> {
        let mut answers = Vec::new();
        for (session, seen, reply) in std::mem::take(&mut self.watching) {
            match self.board.log_from(seen) {
                [] => self.watching.push((session, seen, reply)),
                news => answers.push((reply, encode(&news))),
            }
        }
        answers
    }

    /// A node that leaves waits for no more news.
    fn leave(&mut self, session: u64) {
        self.board.leave(session);
        for (_, _, reply) in self.watching.extract_if(.., |(other, ..)| *other == session) {
            reply.send(&[b"[]"]);
        }
    }

    fn join(&mut self, session: u64, card: Card, since: Instant, reply: Reply) {
        match self.board.join(session, card.clone(), Instant::now()) {
            Joining::Accepted => reply.send(&[&encode(&session)]),
            Joining::Refused(problem) => reply.fail(&problem),
            Joining::Twice => self.twice.push((session, card, since, reply)),
        }
    }
}

/// Lets time pass until the host is dropped.
fn tick(shared: &Shared, server: &Weak<Server>) {
    while !shared.closing.load(Ordering::Acquire) {
        let Some(silences) = server.upgrade().map(|server| server.silences()) else { return };
        let is_silent = silences.iter().any(|(_, silence)| *silence > shared.suspicious);
        shared.change(|state| {
            let now = Instant::now();
            state.board.tick(now, is_silent);
            for (session, card, since, reply) in std::mem::take(&mut state.twice) {
                let waited = now.saturating_duration_since(since);
                if waited > shared.patience {
                    reply.fail(&board::twice(&card.address, waited));
                } else {
                    state.join(session, card, since, reply);
                }
            }
        });
        std::thread::sleep(TICK);
    }
}

/// What `comm` calls.
struct Desk(Arc<Shared>);

impl Handler for Desk {
    fn handle(&self, peer: &Peer, _method: u16, body: &Body, reply: Reply) {
        let request = match decode(body) {
            Ok(request) => request,
            Err(problem) => return reply.fail(&problem),
        };
        let session = peer.session;
        self.0.change(|state| {
            // The log has the secret of the job, and whoever adds to it can end the job.
            if !matches!(request, Request::Join(_)) && !state.board.has(session) {
                return reply.fail("this is for nodes that have joined the job");
            }
            match request {
                Request::Join(card) => return state.join(session, card, Instant::now(), reply),
                Request::Watch(seen) => return state.watching.push((session, seen, reply)),
                Request::Failed(failure) => state.board.failed(failure, Instant::now()),
                Request::WorkersDone => state.board.workers_done(session),
                Request::Stopped { round, checkpoint } => {
                    state.board.stopped(session, round, checkpoint);
                }
                Request::GiveUp(problem) => state.board.refuse(problem),
                Request::Leave => state.leave(session),
            }
            reply.send(&[]);
        });
    }

    fn refused(&self, address: &str, problem: &str) {
        self.0.change(|state| {
            state.board.note(format!("a connection from {address} was refused: {problem}"));
        });
    }

    fn lost(&self, peer: &Peer, _why: &str) {
        self.0.change(|state| {
            let why = format!(
                "nothing was heard of it for {:.1} s: it was switched off, its `fleetrun` was \
                 killed, or the network to it is cut",
                self.0.silence.as_secs_f64()
            );
            state.twice.retain(|(session, ..)| *session != peer.session);
            state.board.lost(peer.session, &why);
        });
    }
}
