//! Threads of a server that share one piece of work: the update at a barrier, for which all trainers
//! wait.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Error, Result};

/// Elements that are worth a thread: it takes about as long to start one as to update them.
const WORTH: usize = 1 << 16;
/// Threads at most.
const MOST: usize = 16;

/// As many threads as the machine has cores, up to a limit.
pub(super) struct Crew {
    threads: usize,
}

impl Crew {
    /// The threads of this machine. The system is asked once: it reads files to tell.
    pub(super) fn of_machine() -> Crew {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Crew { threads: cores.min(MOST) }
    }

    /// How many threads so many elements are worth.
    pub(super) fn worth(&self, elements: usize) -> usize {
        (elements / WORTH).clamp(1, self.threads)
    }

    /// Runs `count` tasks, which are independent and touch so many `elements` together; the first
    /// error counts.
    pub(super) fn share(
        &self,
        count: usize,
        elements: usize,
        task: impl Fn(usize) -> Result<()> + Sync,
    ) -> Result<()> {
        let threads = self.worth(elements).min(count);
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    return Ok(());
                }
                task(at)?;
            }
        };
        if threads < 2 {
            return work();
        }
        std::thread::scope(|scope| {
            // A thread that cannot be started leaves its tasks to the others.
            let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..threads).filter_map(start).collect();
            let mine = work();
            let ended = others.into_iter().map(|other| {
                let panicked = |_| Err(Error::Request("an update panicked".to_owned()));
                other.join().unwrap_or_else(panicked)
            });
            ended.fold(mine, |first, other| first.and(other))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_once_and_errors_come_out() {
        let crew = Crew { threads: 4 };
        let done: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
        let count = |at: usize| {
            done[at].fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        crew.share(done.len(), usize::MAX, count).unwrap();
        assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        let refuse = |at: usize| match at {
            7 => Err(Error::Request("seven".to_owned())),
            _ => Ok(()),
        };
        for elements in [0, usize::MAX] {
            let error = crew.share(done.len(), elements, refuse).unwrap_err();
            assert!(error.to_string().contains("seven"), "{error}");
        }
        crew.share(0, usize::MAX, refuse).unwrap();
        assert_eq!((crew.worth(0), crew.worth(3 * WORTH), crew.worth(usize::MAX)), (1, 3, 4));
    }
}
