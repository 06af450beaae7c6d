//! Where the time of a plan's steps goes, for who asks: looks at the clock cost little, but not nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time that steps on the host have spent, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Steps that were timed.
    pub steps: u64,
    /// Ops on whole values that ran before the batch was split; none where it was not.
    pub before: Duration,
    /// From the first share of the batch to the last: forward and backward.
    pub shares: Duration,
    /// What all threads together spent on shares; the rest of so many times `shares` is waiting.
    pub on_shares: Duration,
    /// Adding up what shares computed of the same value.
    pub sums: Duration,
    /// Everything after that: updates of parameters, metrics.
    pub after: Duration,
}

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Before,
    Shares,
    OnShares,
    Sums,
    After,
}

/// Adds up times, of several threads for [`Part::OnShares`].
#[derive(Debug, Default)]
pub(crate) struct Clock {
    steps: AtomicU64,
    nanoseconds: [AtomicU64; 5],
}

impl Clock {
    pub(super) fn count_step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn times(&self) -> StepTimes {
        let time = |part: Part| {
            Duration::from_nanos(self.nanoseconds[part as usize].load(Ordering::Relaxed))
        };
        StepTimes {
            steps: self.steps.load(Ordering::Relaxed),
            before: time(Part::Before),
            shares: time(Part::Shares),
            on_shares: time(Part::OnShares),
            sums: time(Part::Sums),
            after: time(Part::After),
        }
    }
}

/// Runs `work`, which is a part of a step, and adds its time to that part if there is a clock.
pub(super) fn timed<R>(clock: Option<&Clock>, part: Part, work: impl FnOnce() -> R) -> R {
    let Some(clock) = clock else { return work() };
    let start = Instant::now();
    let done = work();
    let spent = start.elapsed().as_nanos() as u64;
    clock.nanoseconds[part as usize].fetch_add(spent, Ordering::Relaxed);
    done
}
