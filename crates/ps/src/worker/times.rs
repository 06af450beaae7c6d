//! How long a trainer's steps were with its servers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time that steps spent with servers, of all training threads together. What is left of a step's time is the
/// trainer's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Getting rows and parameters. Rows that are pulled beside a step count as long as a step waits for them.
    pub pull: Duration,
    /// Handing gradients over.
    pub push: Duration,
    /// At barriers, for the other trainers.
    pub wait: Duration,
    /// For servers to apply what was handed over: this trainer's gradients, and the update at a barrier.
    pub server: Duration,
}

/// Counts it, in nanoseconds.
#[derive(Default)]
pub(super) struct Clocks {
    pub(super) pull: Clock,
    pub(super) push: Clock,
    pub(super) wait: Clock,
    pub(super) server: Clock,
}

/// One of the counters.
#[derive(Default)]
pub(super) struct Clock(AtomicU64);

impl Clock {
    /// Does `work`, and counts how long it takes.
    pub(super) fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        self.add(began.elapsed());
        done
    }

    /// Counts a time.
    pub(super) fn add(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    fn read(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

impl Times {
    /// What was spent since the times were `before`.
    pub fn since(&self, before: &Times) -> Times {
        Times {
            pull: self.pull.saturating_sub(before.pull),
            push: self.push.saturating_sub(before.push),
            wait: self.wait.saturating_sub(before.wait),
            server: self.server.saturating_sub(before.server),
        }
    }
}

impl Clocks {
    pub(super) fn read(&self) -> Times {
        let Clocks { pull, push, wait, server } = self;
        Times { pull: pull.read(), push: push.read(), wait: wait.read(), server: server.read() }
    }
}
