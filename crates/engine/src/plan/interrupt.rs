//! Asks the caller now and then whether a running step should stop, at a cost that no step notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

/// Says whether a running step should stop.
pub(crate) type Question = Arc<dyn Fn() -> bool + Send + Sync>;

/// Microseconds between two questions: they may be costly, and nobody notices a shorter delay.
const ASK_US: u64 = 5_000;
/// Reading the clock costs as much as a small op. When ops come faster than this, it is read less
/// often.
const LOOK_US: u64 = 500;
/// The most ops between two looks at the clock.
const MAX_STRIDE: u32 = 64;

/// The question, and when it was last asked. Only one worker uses it at a time; the numbers are
/// atomic because the step that holds them is shared.
pub(crate) struct Interrupt {
    question: Question,
    start: Instant,
    /// Microseconds after `start` of the last question, and one; 0 before the first.
    asked: AtomicU64,
    /// Microseconds after `start` of the last look at the clock.
    looked: AtomicU64,
    /// Ops between two looks.
    stride: AtomicU32,
    /// Ops until the next look.
    left: AtomicU32,
}

impl Interrupt {
    /// The question, for who waits without running ops.
    pub(crate) fn question(&self) -> Question {
        Arc::clone(&self.question)
    }

    pub(crate) fn new(question: Question) -> Interrupt {
        Interrupt {
            question,
            start: Instant::now(),
            asked: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            stride: AtomicU32::new(1),
            left: AtomicU32::new(0),
        }
    }

    /// Called between ops: whether the step should stop.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        match self.left.load(Ordering::Relaxed) {
            0 => self.look(self.start.elapsed().as_micros() as u64),
            left => {
                self.left.store(left - 1, Ordering::Relaxed);
                false
            }
        }
    }

    #[cold]
    fn look(&self, now: u64) -> bool {
        let quick = now.saturating_sub(self.looked.swap(now, Ordering::Relaxed)) < LOOK_US;
        let stride = self.stride.load(Ordering::Relaxed);
        let stride = if quick { (2 * stride).min(MAX_STRIDE) } else { 1 };
        self.stride.store(stride, Ordering::Relaxed);
        self.left.store(stride - 1, Ordering::Relaxed);
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != 0 && now + 1 < asked + ASK_US {
            return false;
        }
        self.asked.store(now + 1, Ordering::Relaxed);
        (self.question)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_first_and_then_at_intervals() {
        let count = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&count);
        let interrupt = Interrupt::new(Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            true
        }));
        assert!(interrupt.look(100));
        assert!(!interrupt.look(200) && !interrupt.look(100 + ASK_US - 1));
        assert!(interrupt.look(100 + ASK_US));
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn looks_at_the_clock_less_often_among_quick_ops() {
        let interrupt = Interrupt::new(Arc::new(|| false));
        for (now, left) in [(1, 1), (2, 3), (3, 7), (3 + LOOK_US, 0), (4 + LOOK_US, 1)] {
            interrupt.look(now);
            assert_eq!(interrupt.left.load(Ordering::Relaxed), left, "at {now}");
        }
        (0..100).for_each(|_| {
            interrupt.look(5 + LOOK_US);
        });
        assert_eq!(interrupt.left.load(Ordering::Relaxed), MAX_STRIDE - 1);
    }
}
