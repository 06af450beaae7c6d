//! What a server knows of one client: its connections, when it was last heard of, and for each link
//! the `once` requests that the client may still send again, with their replies.
//! A `once` request is handed out for execution at most once in the life of a session.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::Peer;
use crate::connection::{Connection, lock};
use crate::frame::Kind;

pub(super) struct Session {
    pub(super) peer: Peer,
    start: Instant,
    /// Milliseconds from `start` to the last frame.
    heard: AtomicU64,
    connections: Mutex<Vec<Arc<Connection>>>,
    links: Mutex<HashMap<u32, Arc<Link>>>,
    closed: AtomicBool,
}

impl Session {
    pub(super) fn new(peer: Peer) -> Session {
        Session {
            peer,
            start: Instant::now(),
            heard: AtomicU64::new(0),
            connections: Mutex::default(),
            links: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn touch(&self) {
        self.heard.store(self.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    pub(super) fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(heard)
    }

    /// Takes a connection in; false when the session is over.
    pub(super) fn add(&self, connection: &Arc<Connection>) -> bool {
        let mut connections = lock(&self.connections);
        connections.push(connection.clone());
        !self.closed.load(Ordering::Acquire)
    }

    pub(super) fn remove(&self, connection: &Arc<Connection>) {
        lock(&self.connections).retain(|other| !Arc::ptr_eq(other, connection));
    }

    /// The state of a link, which outlives its connections.
    pub(super) fn link(&self, number: u32) -> Arc<Link> {
        lock(&self.links).entry(number).or_default().clone()
    }

    pub(super) fn close(&self) {
        let mut connections = lock(&self.connections);
        self.closed.store(true, Ordering::Release);
        connections.drain(..).for_each(|connection| connection.shutdown());
    }
}

/// The `once` requests of one link.
#[derive(Default)]
pub(super) struct Link {
    state: Mutex<Requests>,
}

#[derive(Default)]
struct Requests {
    /// Requests with smaller numbers are over: the client has the reply or gave up.
    acknowledged: u64,
    known: BTreeMap<u64, Once>,
}

enum Once {
    /// Being executed; the reply goes to the newest connection that asked.
    Running(Arc<Connection>),
    /// Executed: the kind of the reply and its bytes.
    Done(Kind, Arc<Vec<u8>>),
}

/// What to do with a `once` request.
pub(super) enum Admission {
    Execute,
    Repeat(Kind, Arc<Vec<u8>>),
    /// It runs already, or is long over.
    Ignore,
    Full,
}

impl Link {
    pub(super) fn admit(
        &self,
        number: u64,
        acknowledged: u64,
        connection: &Arc<Connection>,
        limit: usize,
    ) -> Admission {
        let mut state = lock(&self.state);
        if acknowledged > state.acknowledged {
            state.acknowledged = acknowledged;
            state.known = state.known.split_off(&acknowledged);
        }
        if number < state.acknowledged {
            return Admission::Ignore;
        }
        let full = state.known.len() >= limit;
        match state.known.get_mut(&number) {
            Some(Once::Done(kind, bytes)) => Admission::Repeat(*kind, bytes.clone()),
            Some(Once::Running(asker)) => {
                *asker = connection.clone();
                Admission::Ignore
            }
            None if full => Admission::Full,
            None => {
                state.known.insert(number, Once::Running(connection.clone()));
                Admission::Execute
            }
        }
    }

    /// Keeps the reply and says where to send it; nowhere if the client gave up.
    pub(super) fn finish(
        &self,
        number: u64,
        kind: Kind,
        parts: &[&[u8]],
    ) -> Option<Arc<Connection>> {
        // Copied before the lock is taken: a reply may be large.
        let bytes = Arc::new(parts.concat());
        let mut state = lock(&self.state);
        let once = state.known.get_mut(&number)?;
        match std::mem::replace(once, Once::Done(kind, bytes)) {
            Once::Running(connection) => Some(connection),
            Once::Done(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Memory, Transport};

    fn connection() -> Arc<Connection> {
        let network = Memory::new(0);
        let bound = network.listen("host:0").unwrap();
        let stream = network.connect(&bound.endpoint, Duration::ZERO).unwrap();
        Arc::new(Connection::new(stream))
    }

    #[test]
    fn a_request_is_executed_once_and_its_reply_repeated_until_acknowledged() {
        let (link, first, second) = (Link::default(), connection(), connection());
        assert!(matches!(link.admit(1, 1, &first, 2), Admission::Execute));
        assert!(matches!(link.admit(1, 1, &second, 2), Admission::Ignore));
        let to = link.finish(1, Kind::Reply, &[b"a", b"b"]).unwrap();
        assert!(Arc::ptr_eq(&to, &second), "the reply goes to the connection that asked last");
        let Admission::Repeat(Kind::Reply, bytes) = link.admit(1, 1, &second, 2) else {
            panic!("the reply is kept");
        };
        assert_eq!(bytes.as_slice(), b"ab");
        assert!(matches!(link.admit(3, 1, &first, 2), Admission::Execute));
        assert!(matches!(link.admit(4, 1, &first, 2), Admission::Full));
        assert!(matches!(link.admit(4, 2, &first, 2), Admission::Execute));
        assert!(matches!(link.admit(1, 1, &second, 2), Admission::Ignore), "a late double");
        assert!(link.finish(1, Kind::Reply, &[]).is_none());
    }

    #[test]
    fn a_closed_session_takes_no_connection() {
        let peer = Peer { identity: crate::Identity::trainer(0), session: 1, address: "x".into() };
        let session = Session::new(peer);
        let (first, second) = (connection(), connection());
        assert!(session.add(&first));
        session.close();
        assert!(first.is_broken());
        assert!(!session.add(&second));
    }
}
