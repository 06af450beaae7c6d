//! The threads of a server or a client: small stacks, counted, joined when it stops.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::connection::lock;
use crate::{Error, Result};

/// Room for what handlers run, optimizers among them; only pages that are touched cost memory.
const STACK: usize = 1 << 20;

/// Threads that run.
#[derive(Default)]
pub(crate) struct Threads {
    live: Mutex<HashMap<u64, Option<ThreadId>>>,
    ended: Condvar,
}

impl Threads {
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let key = crate::handshake::random();
        lock(&self.live).insert(key, None);
        let leave = Leave { threads: self.clone(), key };
        let builder = thread::Builder::new().name(format!("comm-{name}")).stack_size(STACK);
        let spawned = builder.spawn(move || {
            lock(&leave.threads.live).insert(leave.key, Some(thread::current().id()));
            // A local of this closure, so it is dropped even when the work panics.
            let _leave = leave;
            work();
        });
        spawned
            .map(drop)
            .map_err(|source| Error::Io { what: "cannot start a thread".into(), source })
    }

    /// Waits until all threads but the calling one have ended; false if some have not in time.
    pub(crate) fn join(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        let own = Some(thread::current().id());
        let mut live = lock(&self.live);
        while live.values().any(|thread| *thread != own) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            live =
                self.ended.wait_timeout(live, left).unwrap_or_else(|poison| poison.into_inner()).0;
        }
        true
    }
}

/// Signs a thread off, also when it panics or never started.
struct Leave {
    threads: Arc<Threads>,
    key: u64,
}

impl Drop for Leave {
    fn drop(&mut self) {
        lock(&self.threads.live).remove(&self.key);
        self.threads.ended.notify_all();
    }
}
