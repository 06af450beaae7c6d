//! When work on files last made progress: a slow disk is waited for; one that makes no progress is an
//! error.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The last sign of progress.
pub(super) struct Progress {
    start: Instant,
    /// Milliseconds from `start`.
    last: AtomicU64,
}

impl Progress {
    pub(super) fn new() -> Progress {
        Progress { start: Instant::now(), last: AtomicU64::new(0) }
    }

    /// Something was read or written.
    pub(super) fn note(&self) {
        self.last.store(self.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    pub(super) fn last(&self) -> Instant {
        self.start + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }
}
