//! The worker threads of the process. A step borrows as many as it was promised for the time of one
//! job, which they run together with the thread that asks; threads are started only when too few are
//! idle, so that steps side by side (or one inside another) never wait for each other's.
//!
//! Steps are short, so workers spin for a while before they sleep; a sleeping worker costs nothing.

#![expect(unsafe_code, reason = "a job is lent to the workers for the time of one call")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Spins before a worker sleeps: some tens of microseconds, the gap between two steps.
const SPINS: u32 = if cfg!(miri) { 10 } else { 20_000 };

/// Waits of this length are for other processes: a short sleep between two looks adds nothing to
/// them that anybody notices, and leaves the core to others.
const LONG: Duration = Duration::from_millis(20);
const NAP: Duration = Duration::from_micros(500);

type Job<'a> = dyn Fn(usize) + Sync + 'a;

/// The workers of one step at a time; the caller of [`Team::run`] is worker 0.
pub(crate) struct Team {
    workers: usize,
    /// Those it has borrowed; empty between two jobs.
    borrowed: Vec<Worker>,
}

/// Workers of the process that no team has borrowed.
struct Idle {
    workers: Vec<Worker>,
    /// How many there are in all.
    started: usize,
    /// A forked process has the list of its parent, but none of the threads.
    process: u32,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle { workers: Vec::new(), started: 0, process: 0 });

struct Worker {
    mailbox: Arc<Mailbox>,
    thread: Thread,
}

/// How a worker is told what to do.
struct Mailbox {
    /// Null while the worker has nothing to do.
    order: AtomicPtr<Order>,
    /// The worker's number in the team that gave the order.
    number: AtomicUsize,
}

/// One job of a team, on the stack of the caller until nobody is busy with it.
struct Order {
    job: *const Job<'static>,
    busy: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Team {
    /// A team of `workers` workers, one of which is the caller.
    pub(crate) fn new(workers: usize) -> Team {
        let (mut idle, process) = (lock(&IDLE), std::process::id());
        if idle.process != process {
            *idle = Idle { workers: Vec::new(), started: 0, process };
        }
        while idle.started + 1 < workers {
            idle.start();
        }
        Team { workers: workers.max(1), borrowed: Vec::with_capacity(workers) }
    }

    /// The number of workers, the caller included.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Runs `job(worker)` on every worker, and returns when all are done. The caller calls `idle`
    /// now and then while the others are still busy. A panic of any of them comes to the caller.
    pub(crate) fn run(&mut self, job: &Job<'_>, idle: impl Fn()) {
        let others = self.workers - 1;
        if others == 0 {
            return job(0);
        }
        lock(&IDLE).lend(others, &mut self.borrowed);
        // SAFETY: the lifetime is extended only until this function returns, which waits until
        // nobody is busy with the job.
        let job_ptr = unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(job) };
        let (busy, panic) = (AtomicUsize::new(others), Mutex::new(None));
        let order = Order { job: job_ptr, busy, panic };
        for (number, Worker { mailbox, .. }) in self.borrowed.iter().enumerate() {
            mailbox.number.store(number + 1, Ordering::Relaxed);
            mailbox.order.store((&raw const order).cast_mut(), Ordering::Release);
        }
        self.borrowed.iter().for_each(|worker| worker.thread.unpark());
        let is_done = || order.busy.load(Ordering::Acquire) == 0;
        let own = catch_unwind(AssertUnwindSafe(|| {
            job(0);
            wait_until(is_done, idle);
        }));
        wait_until(is_done, || ());
        lock(&IDLE).workers.append(&mut self.borrowed);
        let panic = own.err().or_else(|| lock(&order.panic).take());
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Idle {
    /// The workers that were idle for the shortest time: they may still spin.
    fn lend(&mut self, count: usize, to: &mut Vec<Worker>) {
        while self.workers.len() < count {
            self.start();
        }
        to.extend(self.workers.drain(self.workers.len() - count..));
    }

    fn start(&mut self) {
        let (order, number) = (AtomicPtr::new(null_mut()), AtomicUsize::new(0));
        let mailbox = Arc::new(Mailbox { order, number });
        let own = Arc::clone(&mailbox);
        let thread = std::thread::Builder::new()
            .name(format!("bireme-worker-{}", self.started + 1))
            .spawn(move || own.serve())
            .expect("the system can start a thread");
        self.started += 1;
        // Room for all of them, so that no step allocates when it gives its workers back.
        self.workers.reserve(self.started - self.workers.len());
        self.workers.push(Worker { mailbox, thread: thread.thread().clone() });
    }
}

impl Mailbox {
    fn serve(&self) -> ! {
        loop {
            let order = self.wait();
            // SAFETY: `run` keeps the order, and the job in it, as long as somebody is busy with it.
            let order = unsafe { order.as_ref() };
            let number = self.number.load(Ordering::Relaxed);
            // SAFETY: as above.
            let job = AssertUnwindSafe(|| unsafe { (*order.job)(number) });
            if let Err(panic) = catch_unwind(job) {
                *lock(&order.panic) = Some(panic);
            }
            self.order.store(null_mut(), Ordering::Relaxed);
            order.busy.fetch_sub(1, Ordering::Release);
        }
    }

    fn wait(&self) -> NonNull<Order> {
        let mut spins = 0;
        loop {
            if let Some(order) = NonNull::new(self.order.load(Ordering::Acquire)) {
                return order;
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

/// What is behind these locks is whole at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    use std::sync::atomic::AtomicBool;

    #[test]
    fn every_worker_runs_every_job() {
        let mut team = Team::new(3);
        let sum = AtomicUsize::new(0);
        let barrier = Barrier::new(3);
        for _ in 0..100 {
            team.run(
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
        let mut team = Team::new(2);
        let asked = AtomicBool::new(false);
        let wait = |worker: usize| {
            while worker == 1 && !asked.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        };
        team.run(&wait, || asked.store(true, Ordering::Release));
        assert!(asked.swap(false, Ordering::AcqRel));
        let barrier = Barrier::new(2);
        let meet = |worker: usize| {
            wait(worker);
            barrier.wait(|| asked.store(worker == 0, Ordering::Release));
        };
        team.run(&meet, || ());
    }

    #[test]
    fn a_panic_of_a_worker_comes_to_the_caller() {
        let mut team = Team::new(3);
        for culprit in [0, 2] {
            let job = |worker: usize| assert_ne!(worker, culprit, "the culprit");
            let caught = catch_unwind(AssertUnwindSafe(|| team.run(&job, || ()))).unwrap_err();
            let text = caught.downcast_ref::<String>().unwrap();
            assert!(text.contains("the culprit"), "{text}");
        }
        let count = AtomicUsize::new(0);
        let counted = |_: usize| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        team.run(&counted, || ());
        assert_eq!(count.into_inner(), 3);
    }

    /// Every team meets at a barrier, so that one worker too few would never end.
    #[test]
    fn teams_beside_and_inside_each_other_have_all_their_workers() {
        let met = AtomicUsize::new(0);
        let run = |size: usize, then: &(dyn Fn(usize) + Sync)| {
            let barrier = Barrier::new(size);
            let job = |worker: usize| {
                barrier.wait(|| ());
                met.fetch_add(1, Ordering::Relaxed);
                then(worker);
            };
            Team::new(size).run(&job, || ());
        };
        std::thread::scope(|threads| {
            for size in [2, 3, 4] {
                let run = &run;
                threads.spawn(move || (0..10).for_each(|_| run(size, &|_| run(2, &|_| ()))));
            }
        });
        assert_eq!(met.into_inner(), 10 * (2 + 3 + 4) * (1 + 2));
    }
}
