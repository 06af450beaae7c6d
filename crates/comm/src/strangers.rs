//! The door of a server or a mesh: connections that have yet to prove themselves.
//! At most so many prove themselves at one time; the oldest makes room for the next, so strangers
//! that stay silent keep nobody out.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::connection::{Connection, lock};
use crate::transport::{Encryption, Listener, Stream};

/// After an error of `accept` (no file descriptors left) the system gets this much time.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// Connections that have not proven themselves, the oldest first.
pub(crate) struct Strangers {
    limit: usize,
    waiting: Mutex<VecDeque<(Instant, Arc<Connection>)>>,
}

impl Strangers {
    /// At most `limit` at one time.
    pub(crate) fn new(limit: usize) -> Strangers {
        Strangers { limit, waiting: Mutex::default() }
    }

    /// Takes a connection in, as a stranger.
    ///
    /// # Errors
    /// When it cannot be encrypted.
    pub(crate) fn add(
        &self,
        stream: Box<dyn Stream>,
        encryption: Option<&Encryption>,
    ) -> io::Result<Arc<Connection>> {
        let stream = match encryption {
            None => stream,
            Some(encryption) => encryption.server(stream)?,
        };
        let connection = Arc::new(Connection::new(stream));
        let mut waiting = lock(&self.waiting);
        while waiting.len() >= self.limit {
            if let Some((_, oldest)) = waiting.pop_front() {
                oldest.shutdown();
            }
        }
        waiting.push_back((Instant::now(), connection.clone()));
        Ok(connection)
    }

    /// It has proven itself, or was refused.
    pub(crate) fn remove(&self, connection: &Arc<Connection>) {
        lock(&self.waiting).retain(|(_, other)| !Arc::ptr_eq(other, connection));
    }

    /// Ends those that drip bytes so slowly that no single read times out.
    pub(crate) fn drop_older_than(&self, age: Duration) {
        let mut waiting = lock(&self.waiting);
        while waiting.front().is_some_and(|(since, _)| since.elapsed() > age) {
            if let Some((_, oldest)) = waiting.pop_front() {
                oldest.shutdown();
            }
        }
    }

    /// Ends all of them.
    pub(crate) fn close(&self) {
        lock(&self.waiting).drain(..).for_each(|(_, connection)| connection.shutdown());
    }
}

/// Takes connections until `is_over`, which closing the listener makes it look at.
pub(crate) fn accept(
    listener: &dyn Listener,
    is_over: impl Fn() -> bool,
    failed: impl Fn(io::Error),
    take: impl Fn(Box<dyn Stream>),
) {
    while !is_over() {
        match listener.accept() {
            Ok(stream) => take(stream),
            Err(_) if is_over() => return,
            Err(error) => failed(error),
        }
    }
}
