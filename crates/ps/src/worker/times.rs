//! How long a trainer's steps were with its servers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time that steps spent with servers, of all training threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Getting rows and parameters.
    pub pull: Duration,
    /// Handing gradients over.
    pub push: Duration,
    /// At barriers, for the other trainers.
    pub wait: Duration,
}

/// Counts it, in nanoseconds.
#[derive(Default)]
pub(super) struct Clocks {
    pub(super) pull: Clock,
    pub(super) push: Clock,
    pub(super) wait: Clock,
}

/// One of the counters.
#[derive(Default)]
pub(super) struct Clock(AtomicU64);

impl Clock {
    /// Does `work`, and counts how long it takes.
    pub(super) fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(took, Ordering::Relaxed);
        done
    }

    fn read(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

impl Clocks {
    pub(super) fn read(&self) -> Times {
        let Clocks { pull, push, wait } = self;
        Times { pull: pull.read(), push: push.read(), wait: wait.read() }
    }
}
