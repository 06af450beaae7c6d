//! Who may touch the variables of a scope, and when.
//!
//! A step is alone, or beside others that have been laid out for that (`plan/beside.rs`); making a
//! layout, which may create and resize variables, is always alone. Readers look when no step runs;
//! while steps run beside each other they look at a copy. So nothing that is at work ever sees a
//! variable move, and waiting is by turns: whoever waits to be alone goes before steps that have
//! not begun, and readers before both, so that nobody waits for ever.
//!
//! A turn is taken by locking a mutex that nobody holds for long; the condition variable is
//! touched only when somebody waits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::{Error, Result};

/// The state of a scope's users.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The thread that is alone.
    alone: Option<ThreadId>,
    /// Steps that run beside each other.
    beside: usize,
    /// Threads that look at variables.
    readers: Vec<ThreadId>,
    /// Threads that wait to be alone, and threads that wait to read.
    want_alone: usize,
    want_read: usize,
    /// All threads that wait, for whatever.
    waiting: usize,
}

/// The right to run a step; given back when dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    is_alone: bool,
}

/// What a reader may do.
pub(super) enum Reading<'a> {
    /// Look at the variables where they are.
    InPlace(Reader<'a>),
    /// Copy them by relaxed loads: steps run beside it.
    Beside(Turn<'a>),
}

/// The right to look at variables; given back when dropped.
pub(super) struct Reader<'a>(&'a Turns);

impl Turns {
    /// Waits until nobody else is at work.
    ///
    /// # Errors
    /// When this thread itself is: it would wait for ever.
    pub(super) fn alone(&self) -> Result<Turn<'_>> {
        let mut state = self.lock();
        state.check_idle()?;
        state.want_alone += 1;
        state = self.wait(state, |state| state.is_unused() && state.want_read == 0);
        state.want_alone -= 1;
        state.alone = Some(thread::current().id());
        Ok(Turn { turns: self, is_alone: true })
    }

    /// Waits until only steps that run beside each other are at work.
    ///
    /// # Errors
    /// As [`Turns::alone`].
    pub(super) fn beside(&self) -> Result<Turn<'_>> {
        let mut state = self.lock();
        state.check_idle()?;
        let free = |state: &State| {
            state.alone.is_none() && state.readers.is_empty() && state.want_alone == 0
        };
        state = self.wait(state, free);
        state.beside += 1;
        Ok(Turn { turns: self, is_alone: false })
    }

    /// Waits until no step is alone.
    ///
    /// # Errors
    /// When the step that is alone runs on this thread.
    pub(super) fn read(&self) -> Result<Reading<'_>> {
        let mut state = self.lock();
        if state.alone == Some(thread::current().id()) {
            return Err(inside("a variable is read through its scope inside a step"));
        }
        state.want_read += 1;
        state = self.wait(state, |state| state.alone.is_none());
        state.want_read -= 1;
        if state.beside > 0 {
            state.beside += 1;
            return Ok(Reading::Beside(Turn { turns: self, is_alone: false }));
        }
        state.readers.push(thread::current().id());
        Ok(Reading::InPlace(Reader(self)))
    }

    /// Runs `work` if nobody is at work, and keeps all others from beginning meanwhile.
    pub(super) fn if_unused<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        let state = self.lock();
        state.is_unused().then(work)
    }

    fn wait<'s>(
        &self,
        mut state: MutexGuard<'s, State>,
        free: impl Fn(&State) -> bool,
    ) -> MutexGuard<'s, State> {
        while !free(&state) {
            state.waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters change whole; `if_unused` alone runs foreign work, and changes none.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_unused(&self) -> bool {
        self.alone.is_none() && self.beside == 0 && self.readers.is_empty()
    }

    /// That this thread does not hold what it is about to wait for.
    fn check_idle(&self) -> Result<()> {
        let me = thread::current().id();
        if self.alone == Some(me) || self.readers.contains(&me) {
            return Err(inside("a step begins inside another step, or inside `Scope::read`,"));
        }
        Ok(())
    }
}

fn inside(what: &str) -> Error {
    Error::kernel(format!("{what} on the same scope and thread, which would wait for itself"))
}

impl Turn<'_> {
    /// Lets steps run beside this one, which was alone.
    pub(crate) fn admit_others(&mut self) {
        if std::mem::take(&mut self.is_alone) {
            self.turns.change(|state| (state.alone, state.beside) = (None, state.beside + 1));
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let is_alone = self.is_alone;
        self.turns.change(|state| match is_alone {
            true => state.alone = None,
            false => state.beside -= 1,
        });
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        let me = thread::current().id();
        self.0.change(|state| {
            if let Some(at) = state.readers.iter().position(|reader| *reader == me) {
                state.readers.swap_remove(at);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn who_is_alone_meets_nobody() {
        let turns = Turns::default();
        let (beside, alone) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let rounds = if cfg!(miri) { 5 } else { 300 };
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for _ in 0..rounds {
                        let turn = turns.beside().unwrap();
                        beside.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(alone.load(Ordering::SeqCst), 0);
                        beside.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                    }
                });
                threads.spawn(|| {
                    for _ in 0..rounds {
                        let mut turn = turns.alone().unwrap();
                        assert_eq!(alone.fetch_add(1, Ordering::SeqCst), 0);
                        assert_eq!(beside.load(Ordering::SeqCst), 0);
                        alone.fetch_sub(1, Ordering::SeqCst);
                        turn.admit_others();
                    }
                });
                threads.spawn(|| {
                    for _ in 0..rounds {
                        let reading = turns.read().unwrap();
                        assert_eq!(alone.load(Ordering::SeqCst), 0);
                        if matches!(reading, Reading::InPlace(_)) {
                            assert_eq!(beside.load(Ordering::SeqCst), 0);
                        }
                    }
                });
            }
        });
        assert!(turns.if_unused(|| ()).is_some());
    }

    #[test]
    fn nobody_waits_for_itself() {
        let turns = Turns::default();
        let turn = turns.alone().unwrap();
        assert!(turns.alone().is_err() && turns.beside().is_err() && turns.read().is_err());
        assert!(turns.if_unused(|| ()).is_none());
        drop(turn);
        let (first, second) = (turns.read().unwrap(), turns.read().unwrap());
        assert!(turns.alone().is_err() && turns.beside().is_err());
        drop((first, second));
        turns.alone().unwrap();
    }
}
