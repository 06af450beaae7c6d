//! Which random numbers a step draws: every step of a program has a number, by which its ops choose a
//! stream of their own (see [`crate::random`]).
//!
//! The count belongs to a program and a scope, not to a plan: a program that is compiled again, for
//! other fetches or for the next file of data, goes on where it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a step's number that count steps; those above tell training threads apart.
const STEP_BITS: u32 = 48;

/// A count of steps that have drawn random numbers; clones count together.
#[derive(Clone, Debug, Default)]
pub struct Draws {
    steps: Arc<AtomicU64>,
    thread: u64,
}

impl Draws {
    /// A new count for training thread `thread`, whose numbers are not those of other threads.
    pub fn of_thread(thread: usize) -> Draws {
        Draws::counting(Arc::default(), thread)
    }

    pub(crate) fn counting(steps: Arc<AtomicU64>, thread: usize) -> Draws {
        Draws { steps, thread: thread as u64 }
    }

    /// The number of the next step.
    pub(crate) fn next(&self) -> u64 {
        let step = self.steps.fetch_add(1, Ordering::Relaxed);
        (self.thread << STEP_BITS) | (step & ((1 << STEP_BITS) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_apart() {
        let (zero, one) = (Draws::default(), Draws::of_thread(1));
        assert_eq!((zero.next(), zero.clone().next(), zero.next()), (0, 1, 2));
        assert_eq!((one.next(), one.next()), (1 << 48, (1 << 48) + 1));
    }
}
