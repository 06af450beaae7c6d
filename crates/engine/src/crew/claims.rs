//! Which tasks are taken: in their order, or by whoever had them last time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The tasks that are left of some.
#[derive(Debug)]
pub(super) enum Claims {
    /// The next one, of so many.
    InOrder(AtomicUsize, usize),
    /// A bit for each that is taken, of so many.
    Near(AtomicU64, usize),
}

impl Claims {
    /// Tasks that are taken in their order.
    pub(super) fn in_order(tasks: usize) -> Claims {
        Claims::InOrder(AtomicUsize::new(0), tasks)
    }

    /// Tasks that are taken from where the taker likes best; in their order, if there are too many for that.
    pub(super) fn near(tasks: usize) -> Claims {
        match tasks {
            1..=64 => Claims::Near(AtomicU64::new(0), tasks),
            _ => Claims::in_order(tasks),
        }
    }

    /// Takes a task: the first one that is left from `near` on, where that counts.
    pub(super) fn take(&self, near: usize) -> Option<usize> {
        match self {
            Claims::InOrder(next, tasks) => {
                let task = next.fetch_add(1, Ordering::Relaxed);
                (task < *tasks).then_some(task)
            }
            Claims::Near(taken, tasks) => loop {
                let left = !taken.load(Ordering::Relaxed) & (u64::MAX >> (64 - tasks));
                if left == 0 {
                    return None;
                }
                let from = left & (u64::MAX << (near % tasks));
                let task = if from == 0 { left } else { from }.trailing_zeros() as usize;
                if taken.fetch_or(1 << task, Ordering::Relaxed) >> task & 1 == 0 {
                    return Some(task);
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_taken_once_and_near_ones_first() {
        for tasks in [0, 1, 5, 63, 64, 65, 100] {
            for claims in [Claims::in_order(tasks), Claims::near(tasks)] {
                let mut taken: Vec<usize> = std::iter::from_fn(|| claims.take(7)).collect();
                assert!(claims.take(0).is_none());
                taken.sort_unstable();
                assert_eq!(taken, (0..tasks).collect::<Vec<_>>());
            }
        }
        let claims = Claims::near(6);
        let taken = [2, 4, 2, 5, 8, 0].map(|near| claims.take(near).unwrap());
        assert_eq!(taken, [2, 4, 3, 5, 0, 1]);
    }
}
