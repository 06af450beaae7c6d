//! What a server knows of one client: its connections, when it was last heard of, and for each link
//! the `once` requests that the client may still send again, with their replies.
//! A `once` request is handed out for execution at most once in the life of a session.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::Peer;
use crate::connection::{Connection, lock};
use crate::frame::Kind;
use crate::handshake::{self, CONTROL, Refusal};

pub(super) struct Session {
    pub(super) peer: Peer,
    start: Instant,
    /// Milliseconds from `start` to the last frame.
    heard: AtomicU64,
    /// With the number of the link that each belongs to.
    connections: Mutex<Vec<(u32, Arc<Connection>)>>,
    links: Mutex<HashMap<u32, Arc<Link>>>,
    budget: Arc<ReplyBudget>,
    closed: AtomicBool,
}

impl Session {
    /// `limit` is the most bytes of replies that are kept.
    pub(super) fn new(peer: Peer, limit: usize) -> Session {
        Session {
            peer,
            start: Instant::now(),
            heard: AtomicU64::new(0),
            connections: Mutex::default(),
            links: Mutex::default(),
            budget: Arc::new(ReplyBudget { limit, bytes: AtomicUsize::new(0) }),
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
    pub(super) fn add(&self, link: u32, connection: &Arc<Connection>) -> bool {
        let mut connections = lock(&self.connections);
        connections.push((link, connection.clone()));
        !self.closed.load(Ordering::Acquire)
    }

    pub(super) fn remove(&self, connection: &Arc<Connection>) {
        lock(&self.connections).retain(|(_, other)| !Arc::ptr_eq(other, connection));
    }

    /// The state of a link, which outlives its connections.
    pub(super) fn link(&self, number: u32) -> Arc<Link> {
        let new = || Arc::new(Link::new(self.budget.clone()));
        lock(&self.links).entry(number).or_insert_with(new).clone()
    }

    /// Whether a link is one of at most `limit`; that of heartbeats keeps nothing.
    pub(super) fn has_room(&self, number: u32, limit: usize) -> bool {
        let links = lock(&self.links);
        number == CONTROL || links.len() < limit || links.contains_key(&number)
    }

    /// Bytes of replies that are kept.
    pub(super) fn kept_bytes(&self) -> usize {
        self.budget.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        self.take_connections().into_iter().for_each(|(_, connection)| connection.shutdown());
    }

    /// As [`Session::close`], and tells the client why.
    pub(super) fn close_because(&self, why: &str) {
        for (link, connection) in self.take_connections() {
            match link {
                CONTROL => handshake::refuse(&connection, Refusal::Session, why, 0),
                _ => connection.shutdown(),
            }
        }
    }

    fn take_connections(&self) -> Vec<(u32, Arc<Connection>)> {
        let mut connections = lock(&self.connections);
        self.closed.store(true, Ordering::Release);
        std::mem::take(&mut *connections)
    }
}

/// Replies that the links of a session keep.
struct ReplyBudget {
    limit: usize,
    bytes: AtomicUsize,
}

impl ReplyBudget {
    /// Whether there is room for so many bytes more, which are then counted.
    fn take(&self, bytes: usize) -> bool {
        let fits = |kept: usize| kept.checked_add(bytes).filter(|kept| *kept <= self.limit);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// The `once` requests of one link.
pub(super) struct Link {
    state: Mutex<Requests>,
    budget: Arc<ReplyBudget>,
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
    /// Executed: the kind of the reply and its bytes, unless the session keeps too many already.
    Done(Kind, Option<Arc<Vec<u8>>>),
}

/// What to do with a `once` request.
pub(super) enum Admission {
    Execute,
    Repeat(Kind, Arc<Vec<u8>>),
    /// It runs already, or is long over.
    Ignore,
    /// It was executed, and its reply was not kept.
    ReplyNotKept,
    Full,
}

impl Link {
    fn new(budget: Arc<ReplyBudget>) -> Link {
        Link { state: Mutex::default(), budget }
    }

    /// The client has the replies to all requests with smaller numbers, or gave them up.
    pub(super) fn acknowledge(&self, acknowledged: u64) {
        self.forget_before(&mut lock(&self.state), acknowledged);
    }

    fn forget_before(&self, state: &mut Requests, acknowledged: u64) {
        if acknowledged <= state.acknowledged {
            return;
        }
        state.acknowledged = acknowledged;
        let left = state.known.split_off(&acknowledged);
        let over = std::mem::replace(&mut state.known, left);
        let bytes = over.values().map(|once| match once {
            Once::Done(_, Some(bytes)) => bytes.len(),
            Once::Done(_, None) | Once::Running(_) => 0,
        });
        self.budget.bytes.fetch_sub(bytes.sum(), Ordering::Relaxed);
    }

    pub(super) fn admit(
        &self,
        number: u64,
        acknowledged: u64,
        connection: &Arc<Connection>,
        limit: usize,
    ) -> Admission {
        let mut state = lock(&self.state);
        self.forget_before(&mut state, acknowledged);
        if number < state.acknowledged {
            return Admission::Ignore;
        }
        let full = state.known.len() >= limit;
        match state.known.get_mut(&number) {
            Some(Once::Done(kind, Some(bytes))) => Admission::Repeat(*kind, bytes.clone()),
            Some(Once::Done(_, None)) => Admission::ReplyNotKept,
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

    /// Keeps the reply of `length` bytes, which `keep` gives, and says where to send it; nowhere if
    /// the client gave up.
    pub(super) fn finish(
        &self,
        number: u64,
        kind: Kind,
        length: usize,
        keep: impl FnOnce() -> Arc<Vec<u8>>,
    ) -> Option<Arc<Connection>> {
        // Copied before the lock is taken: a reply may be large.
        let bytes = self.budget.take(length).then(keep);
        let kept = bytes.as_ref().map_or(0, |bytes| bytes.len());
        let mut state = lock(&self.state);
        let Some(once) = state.known.get_mut(&number) else {
            self.budget.bytes.fetch_sub(kept, Ordering::Relaxed);
            return None;
        };
        match std::mem::replace(once, Once::Done(kind, bytes)) {
            Once::Running(connection) => Some(connection),
            Once::Done(..) => {
                self.budget.bytes.fetch_sub(kept, Ordering::Relaxed);
                None
            }
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

    fn peer() -> Peer {
        let (identity, address) = (crate::Identity::trainer(0), "x".to_owned());
        Peer { identity, session: 1, address, is_same_user: false }
    }

    #[test]
    fn a_request_is_executed_once_and_its_reply_repeated_until_acknowledged() {
        let kept = Arc::new(ReplyBudget { limit: 1000, bytes: AtomicUsize::new(0) });
        let (link, first, second) = (Link::new(kept.clone()), connection(), connection());
        let kept_as = |bytes: &[u8]| Arc::new(bytes.to_vec());
        assert!(matches!(link.admit(1, 1, &first, 2), Admission::Execute));
        assert!(matches!(link.admit(1, 1, &second, 2), Admission::Ignore));
        let to = link.finish(1, Kind::Reply, 2, || kept_as(b"ab")).unwrap();
        assert!(Arc::ptr_eq(&to, &second), "the reply goes to the connection that asked last");
        let Admission::Repeat(Kind::Reply, bytes) = link.admit(1, 1, &second, 2) else {
            panic!("the reply is kept");
        };
        assert_eq!(bytes.as_slice(), b"ab");
        assert!(matches!(link.admit(3, 1, &first, 2), Admission::Execute));
        assert!(matches!(link.admit(4, 1, &first, 2), Admission::Full));
        assert!(matches!(link.admit(4, 2, &first, 2), Admission::Execute));
        assert!(matches!(link.admit(1, 1, &second, 2), Admission::Ignore), "a late double");
        assert!(link.finish(1, Kind::Reply, 0, || kept_as(b"")).is_none());
        assert_eq!(kept.bytes.load(Ordering::Relaxed), 0, "what is acknowledged is not kept");
    }

    #[test]
    fn a_session_keeps_only_so_much() {
        let peer = peer();
        let (session, to) = (Session::new(peer, 100), connection());
        let (first, second) = (session.link(0), session.link(1));
        let large = || Arc::new(vec![0; 60]);
        for link in [&first, &second] {
            assert!(matches!(link.admit(1, 1, &to, 2), Admission::Execute));
            assert!(link.finish(1, Kind::Reply, 60, large).is_some());
        }
        assert_eq!(session.kept_bytes(), 60);
        assert!(matches!(first.admit(1, 1, &to, 2), Admission::Repeat(..)));
        assert!(matches!(second.admit(1, 1, &to, 2), Admission::ReplyNotKept));
        first.acknowledge(2);
        assert_eq!(session.kept_bytes(), 0);
        assert!(matches!(second.admit(2, 2, &to, 2), Admission::Execute));
        assert!(second.finish(2, Kind::Reply, 60, large).is_some());
        assert!(matches!(second.admit(2, 2, &to, 2), Admission::Repeat(..)));
        assert!(session.has_room(1, 2) && !session.has_room(2, 2) && session.has_room(CONTROL, 2));
    }

    #[test]
    fn a_closed_session_takes_no_connection() {
        let peer = peer();
        let session = Session::new(peer, 1);
        let (first, second) = (connection(), connection());
        assert!(session.add(0, &first));
        session.close();
        assert!(first.is_broken());
        assert!(!session.add(0, &second));
    }
}
