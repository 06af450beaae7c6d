//! Worker threads that run one job at a time, together with the thread that asks for it.
//!
//! Steps are short, so workers spin for a while before they sleep; a sleeping worker costs nothing.

#![expect(unsafe_code, reason = "a job is lent to the workers for the time of one call")]

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Spins before a worker sleeps: some tens of microseconds, the gap between two steps.
const SPINS: u32 = if cfg!(miri) { 10 } else { 20_000 };

/// Waits of this length are for other processes: a short sleep between two looks adds nothing to
/// them that anybody notices, and leaves the core to others.
const LONG: Duration = Duration::from_millis(20);
const NAP: Duration = Duration::from_micros(500);

type Job<'a> = dyn Fn(usize) + Sync + 'a;

/// A fixed number of workers; the caller of [`Pool::run`] is worker 0.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    /// Counts jobs; a worker that sees it rise takes the job.
    epoch: AtomicU64,
    /// The current job, valid from the rise of `epoch` until all workers are done.
    job: UnsafeCell<Option<*const Job<'static>>>,
    /// Workers that have finished the current job.
    done: AtomicUsize,
    stop: AtomicBool,
}

// SAFETY: `job` is written only while no worker reads it (before `epoch` rises, after `done` is
// full), and the job itself is `Sync`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Pool {
    /// A pool of `workers` workers, one of which is the caller.
    pub(crate) fn new(workers: usize) -> Pool {
        let shared = Arc::new(Shared {
            epoch: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            done: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let spawn = |worker| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("bireme-worker-{worker}"))
                .spawn(move || shared.serve(worker))
                .expect("the system can start a thread")
        };
        let threads = (1..workers.max(1)).map(spawn).collect();
        Pool { shared, threads }
    }

    /// The number of workers, the caller included.
    pub(crate) fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs `job(worker)` on every worker, and returns when all are done. The job must not panic.
    /// The caller calls `idle` now and then while the others are still busy.
    pub(crate) fn run(&mut self, job: &Job<'_>, idle: impl Fn()) {
        if self.threads.is_empty() {
            return job(0);
        }
        let shared = &*self.shared;
        shared.done.store(0, Ordering::Relaxed);
        // SAFETY: no worker is between `epoch` and `done` now. The lifetime is extended only until
        // this function returns, which waits for all workers to be done with the job.
        unsafe {
            *shared.job.get() =
                Some(std::mem::transmute::<*const Job<'_>, *const Job<'static>>(job));
        }
        shared.epoch.fetch_add(1, Ordering::Release);
        for thread in &self.threads {
            thread.thread().unpark();
        }
        job(0);
        wait_until(|| shared.done.load(Ordering::Acquire) == self.threads.len(), idle);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A worker that panicked has reported it already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self, worker: usize) {
        let mut seen = 0;
        while let Some(epoch) = self.wait_for_job(seen) {
            seen = epoch;
            // SAFETY: the rise of `epoch` published the job, and `run` keeps it alive until `done`.
            if let Some(job) = unsafe { *self.job.get() } {
                // SAFETY: as above.
                unsafe { (*job)(worker) };
            }
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    fn wait_for_job(&self, seen: u64) -> Option<u64> {
        let mut spins = 0;
        loop {
            let epoch = self.epoch.load(Ordering::Acquire);
            if epoch > seen {
                return Some(epoch);
            }
            if self.stop.load(Ordering::Acquire) {
                return None;
            }
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                std::thread::park();
            }
        }
    }
}

/// A meeting point for the workers of one job.
pub(crate) struct Barrier {
    workers: usize,
    arrived: AtomicUsize,
    round: AtomicUsize,
}

impl Barrier {
    /// A meeting point of `workers` workers.
    pub(crate) fn new(workers: usize) -> Barrier {
        Barrier { workers, arrived: AtomicUsize::new(0), round: AtomicUsize::new(0) }
    }

    /// Waits until every worker has come here as often as this one, and calls `idle` now and then.
    pub(crate) fn wait(&self, idle: impl Fn()) {
        if self.workers == 1 {
            return;
        }
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.workers {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.fetch_add(1, Ordering::Release);
            return;
        }
        wait_until(|| self.round.load(Ordering::Acquire) != round, idle);
    }
}

/// Spins, then lets other threads run, then sleeps between two looks.
fn wait_until(ready: impl Fn() -> bool, idle: impl Fn()) {
    for _ in 0..SPINS {
        if ready() {
            return;
        }
        std::hint::spin_loop();
    }
    let start = Instant::now();
    while !ready() {
        idle();
        // There may be more workers than cores.
        match start.elapsed() < LONG {
            true => std::thread::yield_now(),
            false => std::thread::sleep(NAP),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_runs_every_job() {
        let mut pool = Pool::new(3);
        let sum = AtomicUsize::new(0);
        let barrier = Barrier::new(3);
        for _ in 0..100 {
            pool.run(
                &|worker| {
                    sum.fetch_add(worker + 1, Ordering::Relaxed);
                    barrier.wait(|| ());
                    assert_eq!(sum.load(Ordering::Relaxed) % 6, 0);
                    barrier.wait(|| ());
                },
                || (),
            );
        }
        assert_eq!(sum.into_inner(), 600);
    }

    #[test]
    fn the_caller_is_asked_while_another_worker_waits() {
        let mut pool = Pool::new(2);
        let asked = AtomicBool::new(false);
        let wait = |worker: usize| {
            while worker == 1 && !asked.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        pool.run(&wait, || asked.store(true, Ordering::Release));
        assert!(asked.swap(false, Ordering::AcqRel));
        let barrier = Barrier::new(2);
        let meet = |worker: usize| {
            wait(worker);
            barrier.wait(|| asked.store(worker == 0, Ordering::Release));
        };
        pool.run(&meet, || ());
    }
}
