//! Answers requests: one thread per connection reads a request, handles it and writes the reply.
//! Threads, connections, handshakes and stored replies are bounded; [`Server::shutdown`] ends all.

mod door;
mod reply;
mod session;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

pub use reply::Reply;

use crate::body::Pool;
use crate::connection::lock;
use crate::strangers::Strangers;
use crate::threads::Threads;
use crate::transport::{Encryption, Listener};
use crate::{Body, Identity, Peer, Result, Settings, Transport, handshake};
use door::Door;
use session::Session;

/// What a server does with requests and with peers that come and go.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request through `reply`, here or later; runs on the connection's own thread.
    /// Requests on several connections of a peer are handled at the same time.
    fn handle(&self, peer: &Peer, method: u16, body: &Body, reply: Reply);

    /// A peer's session has its first connection.
    fn joined(&self, peer: &Peer) {
        let _ = peer;
    }

    /// A connection was refused because its other side does not know the job's secret, or speaks
    /// another version; said once for each host.
    fn refused(&self, address: &str, problem: &str) {
        let _ = (address, problem);
    }

    /// A peer said goodbye: its session is over.
    fn left(&self, peer: &Peer) {
        let _ = peer;
    }

    /// A peer that did not say goodbye was not heard of for the heartbeat timeout. Its session is
    /// over; replies to it go nowhere.
    fn lost(&self, peer: &Peer, why: &str) {
        let _ = (peer, why);
    }
}

/// A process that answers requests; stops when dropped.
pub struct Server {
    state: Arc<State>,
    endpoint: String,
    listeners: Vec<Arc<dyn Listener>>,
}

/// What the threads of a server share.
struct State {
    identity: Identity,
    /// Drawn at random when the server starts, so that clients notice a restart.
    incarnation: u64,
    settings: Settings,
    encryption: Option<Encryption>,
    handler: Arc<dyn Handler>,
    pool: Arc<Pool>,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    strangers: Strangers,
    door: Door,
    threads: Arc<Threads>,
    closing: AtomicBool,
    /// Wakes the watch when the server closes.
    watch: (Mutex<()>, Condvar),
}

impl Server {
    /// Starts to listen at `endpoint` (port 0: any free one) and to answer by `handler`.
    pub fn start(
        transport: Arc<dyn Transport>,
        endpoint: &str,
        identity: Identity,
        settings: Settings,
        handler: Arc<dyn Handler>,
    ) -> Result<Server> {
        settings.check()?;
        let encryption = settings.tls.as_ref().map(Encryption::load).transpose()?;
        let bound = transport.listen(endpoint)?;
        let state = Arc::new(State {
            identity,
            incarnation: handshake::random().max(1),
            strangers: Strangers::new(settings.max_handshakes),
            door: Door::default(),
            settings,
            encryption,
            handler,
            pool: Arc::default(),
            sessions: Mutex::default(),
            threads: Arc::default(),
            closing: AtomicBool::new(false),
            watch: Default::default(),
        });
        let listeners = bound.listeners.into_iter().map(Arc::from).collect();
        let server = Server { state, endpoint: bound.endpoint, listeners };
        for listener in &server.listeners {
            let (state, listener) = (server.state.clone(), listener.clone());
            server.state.threads.spawn("accept", move || door::accept(&state, &*listener))?;
        }
        let state = server.state.clone();
        server.state.threads.spawn("watch", move || watch(&state))?;
        Ok(server)
    }

    /// The endpoint with its real port.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The peers that are connected, or were within the heartbeat timeout.
    pub fn peers(&self) -> Vec<Peer> {
        lock(&self.state.sessions).values().map(|session| session.peer.clone()).collect()
    }

    /// Bytes of replies that are kept because their clients may ask for them again.
    pub fn kept_reply_bytes(&self) -> usize {
        lock(&self.state.sessions).values().map(|session| session.kept_bytes()).sum()
    }

    /// For how long each peer, named by its session, was not heard of.
    pub fn silences(&self) -> Vec<(u64, Duration)> {
        let sessions = lock(&self.state.sessions);
        sessions.iter().map(|(number, session)| (*number, session.silence())).collect()
    }

    /// Takes no more connections, ends those it has and waits for its threads, at most for the
    /// heartbeat timeout where a handler does not return.
    pub fn shutdown(&self) {
        self.end(Session::close);
    }

    /// As [`Server::shutdown`]; clients that have something to ask later are told why it ended.
    pub fn shutdown_because(&self, why: &str) {
        self.end(|session| session.close_because(why));
    }

    fn end(&self, close: impl Fn(&Session)) {
        if self.state.closing.swap(true, Ordering::AcqRel) {
            return;
        }
        for listener in &self.listeners {
            listener.close();
        }
        self.state.strangers.close();
        let sessions: Vec<_> = lock(&self.state.sessions).drain().collect();
        for (_, session) in sessions {
            close(&session);
        }
        drop(lock(&self.state.watch.0));
        self.state.watch.1.notify_all();
        if !self.state.threads.join(self.state.settings.heartbeat_timeout) {
            tracing::warn!("a request is still being handled after `{}` shut down", self.endpoint);
        }
    }
}

impl State {
    /// Waits, or until the server closes.
    fn pause(&self, time: Duration) {
        let guard = lock(&self.watch.0);
        if !self.closing.load(Ordering::Acquire) {
            let _waited = self.watch.1.wait_timeout(guard, time);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Notices peers that are silent for too long, and strangers that are too slow.
fn watch(state: &State) {
    let timeout = state.settings.heartbeat_timeout;
    let interval = state.settings.heartbeat.min(timeout / 4).max(Duration::from_millis(1));
    let mut next = Instant::now();
    loop {
        let now = Instant::now();
        if now < next {
            state.pause(next - now);
        }
        if state.closing.load(Ordering::Acquire) {
            return;
        }
        let now = Instant::now();
        if now < next {
            continue;
        }
        // A machine that slept has heard of nobody; that is nobody's fault.
        if now.duration_since(next) > timeout / 2 {
            lock(&state.sessions).values().for_each(|session| session.touch());
        }
        next = now + interval;
        state.strangers.drop_older_than(state.settings.handshake);
        let mut lost = Vec::new();
        lock(&state.sessions).retain(|_, session| {
            let silent = session.silence() > timeout;
            if silent {
                lost.push(session.clone());
            }
            !silent
        });
        for session in lost {
            session.close();
            let why = format!(
                "nothing was heard of {} for {:.1} s",
                session.peer,
                session.silence().as_secs_f64()
            );
            tracing::warn!("{} lost a peer: {why}", state.identity);
            state.handler.lost(&session.peer, &why);
        }
    }
}
