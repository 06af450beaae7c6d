//! The worker threads of the process. They help wherever work is posted, spin for a while when there is none, for steps
//! are short, and then sleep; a sleeping thread costs nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::Thread;

use super::{BOARD, NUMBER, OPEN, SPINS, TAKEN, help, lock, open};

/// Threads that were started, and by which process: a forked one has the list of its parent, but none of the threads.
struct Started {
    threads: usize,
    /// How many are wanted now, by all who share out work.
    wanted: usize,
    process: u32,
}

static STARTED: Mutex<Started> = Mutex::new(Started { threads: 0, wanted: 0, process: 0 });

/// A thread that sleeps until it is called.
struct Sleeper {
    thread: Thread,
    is_called: Arc<AtomicBool>,
}

/// Those that sleep, the one that fell asleep last at the end.
static ASLEEP: Mutex<Vec<Sleeper>> = Mutex::new(Vec::new());
/// How many they are, for a look without the lock.
static SLEEPERS: AtomicUsize = AtomicUsize::new(0);
/// Those that are awake and look for work.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// Starts threads until there are so many beside those that others want; returns how many were asked for.
pub(super) fn want(threads: usize) -> usize {
    let (mut started, process) = (lock(&STARTED), std::process::id());
    if started.process != process {
        *started = Started { threads: 0, wanted: 0, process };
        forget();
    }
    started.wanted += threads;
    while started.threads < started.wanted && !IS_LOST.load(Ordering::SeqCst) {
        let number = started.threads + 1;
        let thread = std::thread::Builder::new().name(format!("bireme-worker-{number}"));
        // Whoever asks can do all of it alone.
        if thread.spawn(move || serve(number)).is_err() {
            break;
        }
        started.threads += 1;
    }
    threads
}

/// How many threads look for work now.
pub(super) fn looking() -> usize {
    LOOKING.load(Ordering::Relaxed)
}

/// Takes back what was asked for; the threads stay for others.
pub(super) fn unwant(threads: usize) {
    let mut started = lock(&STARTED);
    // A process that was forked meanwhile has begun to count anew.
    started.wanted = started.wanted.saturating_sub(threads);
}

/// Whether the list of sleepers was in use when this process was forked from its parent: nobody will give it back.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// What a parent process had posted, and who slept there.
fn forget() {
    match ASLEEP.try_lock() {
        Ok(mut asleep) => asleep.clear(),
        Err(TryLockError::Poisoned(asleep)) => asleep.into_inner().clear(),
        // Without threads nobody ever asks for it: callers do all their work alone.
        Err(TryLockError::WouldBlock) => IS_LOST.store(true, Ordering::SeqCst),
    }
    SLEEPERS.store(0, Ordering::SeqCst);
    LOOKING.store(0, Ordering::SeqCst);
    TO_WAKE.store(0, Ordering::SeqCst);
    OPEN.store(0, Ordering::SeqCst);
    TAKEN.store(0, Ordering::SeqCst);
    for slot in &BOARD {
        slot.work.store(std::ptr::null_mut(), Ordering::SeqCst);
        slot.visitors.store(0, Ordering::SeqCst);
    }
}

/// Threads that are to be woken, by those that were.
static TO_WAKE: AtomicUsize = AtomicUsize::new(0);
/// How many threads one wakes at a time: a call of the system for each.
const AT_ONCE: usize = 2;

/// Wakes threads until so many look for work, if there are so many: a few, who wake the others, for who asks has work to do.
pub(super) fn wake(count: usize) {
    if SLEEPERS.load(Ordering::SeqCst) == 0 {
        return;
    }
    let count = count.saturating_sub(LOOKING.load(Ordering::SeqCst));
    if count > 0 {
        TO_WAKE.fetch_max(count, Ordering::SeqCst);
        wake_some();
    }
}

/// Wakes a few of those that are to be woken.
fn wake_some() {
    for _ in 0..AT_ONCE {
        let less = |left: usize| left.checked_sub(1);
        if TO_WAKE.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err() {
            return;
        }
        let next = lock(&ASLEEP).pop();
        match next {
            Some(sleeper) => {
                SLEEPERS.fetch_sub(1, Ordering::SeqCst);
                sleeper.is_called.store(true, Ordering::Release);
                sleeper.thread.unpark();
            }
            None => return TO_WAKE.store(0, Ordering::SeqCst),
        }
    }
}

fn serve(number: usize) {
    NUMBER.set(number);
    let mut linger = SPINS;
    loop {
        LOOKING.fetch_add(1, Ordering::SeqCst);
        wake_some();
        let mut left = linger;
        while left > 0 {
            left -= 1;
            if let Some(more) = help() {
                (linger, left) = (more, more);
            }
            std::hint::spin_loop();
        }
        LOOKING.fetch_sub(1, Ordering::SeqCst);
        sleep();
    }
}

/// Does something for others; this thread looks for no work meanwhile.
pub(super) fn busy<R>(work: impl FnOnce() -> R) -> R {
    LOOKING.fetch_sub(1, Ordering::SeqCst);
    let done = work();
    LOOKING.fetch_add(1, Ordering::SeqCst);
    done
}

/// Sleeps until it is woken, unless something was posted meanwhile.
fn sleep() {
    let is_called = Arc::new(AtomicBool::new(false));
    {
        let mut asleep = lock(&ASLEEP);
        asleep.push(Sleeper { thread: std::thread::current(), is_called: Arc::clone(&is_called) });
        // Who posts looks for sleepers afterwards: either sees this one, or this one sees what was posted.
        SLEEPERS.fetch_add(1, Ordering::SeqCst);
        if open().any(|number| BOARD[number].is_inviting()) {
            asleep.pop();
            SLEEPERS.fetch_sub(1, Ordering::SeqCst);
            return;
        }
    }
    while !is_called.load(Ordering::Acquire) {
        std::thread::park();
    }
}
