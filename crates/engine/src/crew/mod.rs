//! Work that is shared out over threads: a caller posts numbered tasks, takes them one after the other, and whoever of
//! the process's worker threads has nothing to do takes some of them, too. Nobody waits for a thread that has not come:
//! a caller alone does all of it, so a thread that has no processor costs its help and nothing else.
//!
//! Tasks write to places of their own, so that results depend on how work is cut, and never on who did which part.

#![expect(
    unsafe_code,
    reason = "work on the stack of the caller is lent to the threads that help it"
)]

mod claims;
mod parts;
mod threads;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use claims::Claims;
pub(crate) use parts::{Parts, blocks, each_block};

/// Looks at something before a thread lets others run: some hundreds of microseconds, as long as a step may need only one
/// thread.
const SPINS: u32 = if cfg!(miri) { 10 } else { 20_000 };
/// The same after work that nothing follows at once.
const FEW_SPINS: u32 = if cfg!(miri) { 10 } else { 500 };

/// Waits of this length are for other processes: a short sleep between two looks adds nothing to them that anybody
/// notices, and leaves the core to others.
const LONG: Duration = Duration::from_millis(20);
const NAP: Duration = Duration::from_micros(500);

/// Work that can be posted at a time; more is done by its caller alone.
const SLOTS: usize = 64;

thread_local! {
    /// How many threads may take part in what this thread does, itself included.
    static HANDS: Cell<usize> = const { Cell::new(1) };
    /// Of how many threads those that have nothing to do may help with large parts of what this thread does; [`hands`]
    /// does not count them.
    static SPARE: Cell<usize> = const { Cell::new(1) };
    /// How long threads that took part look for more work.
    static LINGER: Cell<u32> = const { Cell::new(SPINS) };
    /// Which of the worker threads this is, from 1; 0 for others.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// What is posted now: a bit for each slot that has work with tasks left.
static OPEN: AtomicU64 = AtomicU64::new(0);
/// Slots that callers have taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);
static BOARD: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

/// One place of the board, on cache lines of its own.
#[repr(align(128))]
struct Slot {
    /// Null when there is nothing to take.
    work: AtomicPtr<Work<'static>>,
    /// Threads that may be looking at the work, its caller left out.
    visitors: AtomicUsize,
    /// How many of them may take part.
    seats: AtomicUsize,
}

/// Tasks, on the stack of who posts them.
struct Work<'a> {
    task: &'a (dyn Fn(usize) + Sync),
    claims: Claims,
    /// What [`hands`] says in each task.
    hands: usize,
    /// How often who helped looks for more.
    linger: u32,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// How many threads may take part in what this thread does, itself included.
pub(crate) fn hands() -> usize {
    HANDS.get()
}

/// Runs `work` with so many threads, the caller included, that may take part in what it shares out.
pub(crate) fn with_hands<R>(hands: usize, work: impl FnOnce() -> R) -> R {
    struct Before(usize);
    impl Drop for Before {
        fn drop(&mut self) {
            HANDS.set(self.0);
        }
    }
    let _before = Before(HANDS.replace(hands.max(1)));
    work()
}

/// How many threads may take part in a large part of what this thread does, itself included: [`hands`], or, where it works
/// on a part that is its own ([`with_spare_hands`]), also those that have nothing to do now.
pub(crate) fn hands_now() -> usize {
    match SPARE.get() {
        0 | 1 => hands(),
        most => hands().max((1 + threads::looking()).min(most)),
    }
}

/// Runs `work` on this thread alone; of `most` threads, those that have nothing left to do may help with large parts of it.
pub(crate) fn with_spare_hands<R>(most: usize, work: impl FnOnce() -> R) -> R {
    struct Before(usize);
    impl Drop for Before {
        fn drop(&mut self) {
            SPARE.set(self.0);
        }
    }
    let _before = Before(SPARE.replace(most));
    with_hands(1, work)
}

/// Runs `work`, which `hands` threads may take part in, the caller included; threads are started for it: those that are
/// there for others who do so at the same time are not counted.
pub fn with_threads<R>(hands: usize, work: impl FnOnce() -> R) -> R {
    struct Wanted(usize);
    impl Drop for Wanted {
        fn drop(&mut self) {
            threads::unwant(self.0);
        }
    }
    if hands < 2 {
        return with_hands(1, work);
    }
    let _wanted = Wanted(threads::want(hands - 1));
    with_hands(hands, work)
}

/// As [`with_threads`], but threads that helped sleep soon: others want the processors when it is done.
pub fn with_brief_help<R>(hands: usize, work: impl FnOnce() -> R) -> R {
    struct Before(u32);
    impl Drop for Before {
        fn drop(&mut self) {
            LINGER.set(self.0);
        }
    }
    let _before = Before(LINGER.replace(FEW_SPINS));
    with_threads(hands, work)
}

/// Runs `task` with each number below `tasks` once, with the threads that may take part ([`with_threads`]), and returns
/// when all are done. A panic of any of them comes to the caller.
pub fn share_out(tasks: usize, task: &(dyn Fn(usize) + Sync)) {
    share_out_asking(tasks, task, &|| ());
}

/// [`share_out`]; the caller calls `idle` now and then while it waits for others.
pub(crate) fn share_out_asking(tasks: usize, task: &(dyn Fn(usize) + Sync), idle: &dyn Fn()) {
    post(tasks, Claims::in_order(tasks), task, idle);
}

/// [`share_out_asking`] for tasks that come again with the same memory: each thread begins with those that it had last
/// time, whose memory is in its caches, and helps others then.
pub(crate) fn share_out_near(tasks: usize, task: &(dyn Fn(usize) + Sync), idle: &dyn Fn()) {
    post(tasks, Claims::near(tasks), task, idle);
}

fn post(tasks: usize, claims: Claims, task: &(dyn Fn(usize) + Sync), idle: &dyn Fn()) {
    let (hands, seats) = (hands(), hands().min(tasks).saturating_sub(1));
    let slot = if seats > 0 { take_slot() } else { None };
    let Some(slot) = slot else {
        return (0..tasks).for_each(task);
    };
    let work = Work { task, claims, hands, linger: LINGER.get(), panic: Mutex::new(None) };
    let posted = Posted::new(slot, seats, &work);
    threads::wake(seats);
    // Others may still work when a task of the caller panics: it goes on only when they have left.
    let own = catch_unwind(AssertUnwindSafe(|| work.take_all(&BOARD[slot], slot)));
    let waited = catch_unwind(AssertUnwindSafe(|| posted.wait(idle)));
    drop(posted);
    let panic = own.err().or_else(|| lock(&work.panic).take()).or(waited.err());
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

impl Work<'_> {
    /// Takes tasks until there are none; who finds none closes the slot. Whether there was one.
    fn take_all(&self, slot: &Slot, number: usize) -> bool {
        let (mut found, mut near) = (false, NUMBER.get());
        while let Some(task) = self.claims.take(near) {
            found = true;
            near = task + self.hands;
            (self.task)(task);
        }
        slot.close(number);
        found
    }
}

/// Work that lies in a slot; leaves it when all who took part are done.
struct Posted {
    slot: usize,
}

impl Posted {
    /// The work must stay where it is until this is dropped, which waits until nobody looks at it any more.
    fn new(slot: usize, seats: usize, work: &Work<'_>) -> Posted {
        let work: *const Work<'_> = work;
        BOARD[slot].seats.store(seats, Ordering::Relaxed);
        BOARD[slot].work.store(work.cast_mut().cast(), Ordering::SeqCst);
        OPEN.fetch_or(1 << slot, Ordering::SeqCst);
        Posted { slot }
    }

    fn wait(&self, idle: &dyn Fn()) {
        let slot = &BOARD[self.slot];
        slot.close(self.slot);
        wait_until(|| slot.visitors.load(Ordering::SeqCst) == 0, idle);
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        self.wait(&|| ());
        TAKEN.fetch_and(!(1 << self.slot), Ordering::Release);
    }
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            work: AtomicPtr::new(null_mut()),
            visitors: AtomicUsize::new(0),
            seats: AtomicUsize::new(0),
        }
    }

    /// Lets nobody else in.
    fn close(&self, number: usize) {
        if !self.work.swap(null_mut(), Ordering::SeqCst).is_null() {
            OPEN.fetch_and(!(1 << number), Ordering::SeqCst);
        }
    }

    /// Whether there is work, and a seat.
    fn is_inviting(&self) -> bool {
        !self.work.load(Ordering::Relaxed).is_null()
            && self.visitors.load(Ordering::Relaxed) < self.seats.load(Ordering::Relaxed)
    }

    /// Takes part in what lies here, if there is a seat; if there was something to do, how often to look for more.
    fn help(&self, number: usize) -> Option<u32> {
        if !self.is_inviting() {
            return None;
        }
        // Who comes in is counted first and looks then; the caller takes the work away first and then looks who is in.
        let others = self.visitors.fetch_add(1, Ordering::SeqCst);
        let work = self.work.load(Ordering::SeqCst);
        let mut linger = None;
        // SAFETY: it was there after this thread was counted, so its caller waits until the count is taken back.
        if let Some(work) = unsafe { work.as_ref() }
            && others < self.seats.load(Ordering::Relaxed)
        {
            let help = || with_hands(work.hands, || work.take_all(self, number));
            match threads::busy(|| catch_unwind(AssertUnwindSafe(help))) {
                Ok(found) => linger = found.then_some(work.linger),
                Err(panic) => *lock(&work.panic) = Some(panic),
            }
        }
        self.visitors.fetch_sub(1, Ordering::SeqCst);
        linger
    }
}

/// A slot that nobody uses.
fn take_slot() -> Option<usize> {
    loop {
        let taken = TAKEN.load(Ordering::Relaxed);
        let free = (!taken).trailing_zeros();
        if free as usize >= SLOTS {
            return None;
        }
        let order = (Ordering::Acquire, Ordering::Relaxed);
        if TAKEN.compare_exchange_weak(taken, taken | 1 << free, order.0, order.1).is_ok() {
            return Some(free as usize);
        }
    }
}

/// The slots that have work.
fn open() -> impl Iterator<Item = usize> {
    let mut open = OPEN.load(Ordering::SeqCst);
    std::iter::from_fn(move || {
        let first = (open != 0).then(|| open.trailing_zeros() as usize);
        open &= open.wrapping_sub(1);
        first
    })
}

/// Helps wherever something is posted; if there was something to do, how often to look for more.
fn help() -> Option<u32> {
    open().find_map(|number| BOARD[number].help(number))
}

/// Spins, then lets other threads run, then sleeps between two looks.
fn wait_until(ready: impl Fn() -> bool, idle: &dyn Fn()) {
    for _ in 0..SPINS {
        if ready() {
            return;
        }
        std::hint::spin_loop();
    }
    let start = Instant::now();
    while !ready() {
        idle();
        // There may be more threads than cores.
        match start.elapsed() < LONG {
            true => std::thread::yield_now(),
            false => std::thread::sleep(NAP),
        }
    }
}

/// What is behind these locks is whole at every moment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
