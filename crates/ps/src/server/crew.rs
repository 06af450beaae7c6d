//! One piece of work of a server on several threads: the update at a barrier, for which all trainers wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bireme_engine::crew;

use crate::{Error, Result};

/// Elements that are worth a thread: it takes about as long to wake one as to update them.
const WORTH: usize = 1 << 15;
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

    /// Runs `count` tasks, which are independent and touch so many `elements` together; the error of the first of
    /// them counts.
    pub(super) fn share(
        &self,
        count: usize,
        elements: usize,
        task: impl Fn(usize) -> Result<()> + Sync,
    ) -> Result<()> {
        let failed: Mutex<Option<(usize, Error)>> = Mutex::default();
        let run = |at: usize| {
            let panicked = |_| Err(Error::Request("an update panicked".to_owned()));
            let done = catch_unwind(AssertUnwindSafe(|| task(at))).unwrap_or_else(panicked);
            if let Err(error) = done {
                let mut first = lock(&failed);
                if first.as_ref().is_none_or(|(other, _)| at < *other) {
                    *first = Some((at, error));
                }
            }
        };
        // Trainers want the processors as soon as the update is done.
        crew::with_brief_help(self.worth(elements), || crew::share_out(count, &run));
        match lock(&failed).take() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

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
            7 | 60 => Err(Error::Request(format!("task {at}"))),
            _ => Ok(()),
        };
        for elements in [0, usize::MAX] {
            let error = crew.share(done.len(), elements, refuse).unwrap_err();
            assert!(error.to_string().contains("task 7"), "{error}");
        }
        let error = crew.share(9, usize::MAX, |at| panic!("task {at}")).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
        crew.share(0, usize::MAX, refuse).unwrap();
        assert_eq!((crew.worth(0), crew.worth(3 * WORTH), crew.worth(usize::MAX)), (1, 3, 4));
    }
}
