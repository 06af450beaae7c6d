//! The worker threads of the process. They help wherever work is posted, spin for a while when there is none, for steps
//! are short, and then sleep; a sleeping thread costs nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, TryLockError};
use std::thread::Thread;

use super::{BOARD, OPEN, SPINS, TAKEN, help, lock, open};

/// Threads that were started, and by which process: a forked one has the list of its parent, but none of the threads.
struct Started {
    threads: usize,
    /// How many are wanted now, by all who share out work.
    wanted: usize,
    process: u32,
}

static STARTED: Mutex<Started> = Mutex::new(Started { threads: 0, wanted: 0, process: 0 });

/// Those that sleep, the one that fell asleep last at the end.
static ASLEEP: Mutex<Vec<Thread>> = Mutex::new(Vec::new());
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
        let name = format!("bireme-worker-{}", started.threads + 1);
        // Whoever asks can do all of it alone.
        if std::thread::Builder::new().name(name).spawn(serve).is_err() {
            break;
        }
        started.threads += 1;
    }
    threads
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
    OPEN.store(0, Ordering::SeqCst);
    TAKEN.store(0, Ordering::SeqCst);
    for slot in &BOARD {
        slot.work.store(std::ptr::null_mut(), Ordering::SeqCst);
        slot.visitors.store(0, Ordering::SeqCst);
    }
}

/// Wakes threads until so many look for work, if there are so many.
pub(super) fn wake(count: usize) {
    if SLEEPERS.load(Ordering::SeqCst) == 0 {
        return;
    }
    let mut count = count.saturating_sub(LOOKING.load(Ordering::SeqCst));
    if count == 0 {
        return;
    }
    let mut asleep = lock(&ASLEEP);
    while let (true, Some(thread)) = (count > 0, asleep.pop()) {
        SLEEPERS.fetch_sub(1, Ordering::SeqCst);
        thread.unpark();
        count -= 1;
    }
}

fn serve() {
    loop {
        LOOKING.fetch_add(1, Ordering::SeqCst);
        let mut spins = 0;
        while spins < SPINS {
            match help() {
                true => spins = 0,
                false => spins += 1,
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
    let me = std::thread::current();
    let id = me.id();
    {
        let mut asleep = lock(&ASLEEP);
        asleep.push(me);
        // Who posts looks for sleepers afterwards: either sees this one, or this one sees what was posted.
        SLEEPERS.fetch_add(1, Ordering::SeqCst);
        if open().any(|number| BOARD[number].is_inviting()) {
            asleep.pop();
            SLEEPERS.fetch_sub(1, Ordering::SeqCst);
            return;
        }
    }
    while lock(&ASLEEP).iter().any(|thread| thread.id() == id) {
        std::thread::park();
    }
}
