//! Who may touch the variables of a scope, and when.
//!
//! A step is alone, or beside others that have been laid out for that (`plan/beside.rs`); making a
//! layout, which may create and resize variables, is always alone. Readers look when no step runs;
//! while steps run beside each other they look at a copy. So nothing that is at work ever sees a
//! variable move, and turns come in order of arrival, so that nobody waits for ever. Only a reader
//! that finds steps beside each other goes at once: it copies, and one of them may wait for it.
//!
//! A turn is taken by locking a mutex that nobody holds for long; the condition variable is
//! touched only when somebody waits.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::{Error, Result};

/// How often who waits asks whether it still should.
const TICK: Duration = Duration::from_millis(50);

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
    /// Readers that copy beside them.
    copying: usize,
    /// Threads that look at variables.
    readers: Vec<ThreadId>,
    /// Who waits, in order of arrival.
    queue: VecDeque<(u64, Want)>,
    next_ticket: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Alone,
    Beside,
    Read,
}

/// The right to run a step; given back when dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    holds: Holds,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Alone,
    Beside,
    Copying,
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
    /// Waits until nobody else is at work, or `is_asked` to stop, which it asks now and then.
    ///
    /// # Errors
    /// When this thread itself is at work: it would wait for ever. [`Error::Interrupted`].
    pub(super) fn alone(&self, is_asked: &dyn Fn() -> bool) -> Result<Turn<'_>> {
        let state = self.lock();
        state.check_idle()?;
        let mut state = self.wait(state, Want::Alone, is_asked)?;
        state.alone = Some(thread::current().id());
        Ok(Turn { turns: self, holds: Holds::Alone })
    }

    /// Waits until only steps that run beside each other are at work.
    ///
    /// # Errors
    /// As [`Turns::alone`].
    pub(super) fn beside(&self, is_asked: &dyn Fn() -> bool) -> Result<Turn<'_>> {
        let state = self.lock();
        state.check_idle()?;
        let mut state = self.wait(state, Want::Beside, is_asked)?;
        state.beside += 1;
        Ok(Turn { turns: self, holds: Holds::Beside })
    }

    /// Waits until no step is alone, or has waited for longer.
    ///
    /// # Errors
    /// When the step that is alone runs on this thread.
    pub(super) fn read(&self) -> Result<Reading<'_>> {
        let state = self.lock();
        if state.alone == Some(thread::current().id()) {
            return Err(inside("a variable is read through its scope inside a step"));
        }
        let mut state = self.wait(state, Want::Read, &|| false)?;
        if state.beside > 0 {
            state.copying += 1;
            return Ok(Reading::Beside(Turn { turns: self, holds: Holds::Copying }));
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
        &'s self,
        mut state: MutexGuard<'s, State>,
        want: Want,
        is_asked: &dyn Fn() -> bool,
    ) -> Result<MutexGuard<'s, State>> {
        if state.is_free_for(want, u64::MAX) {
            return Ok(state);
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue.push_back((ticket, want));
        let mut is_interrupted = false;
        while !is_interrupted && !state.is_free_for(want, ticket) {
            let waited = self.changed.wait_timeout(state, TICK);
            let (woken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() {
                // Not under the lock: the answer may need what another waiting thread holds.
                drop(state);
                is_interrupted = is_asked();
                state = self.lock();
            }
        }
        state.queue.retain(|(other, _)| *other != ticket);
        if !state.queue.is_empty() {
            self.changed.notify_all();
        }
        if is_interrupted { Err(Error::Interrupted) } else { Ok(state) }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        if !state.queue.is_empty() {
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
        self.alone.is_none() && self.beside + self.copying == 0 && self.readers.is_empty()
    }

    /// Whether who wants this may begin, after those that came before `ticket`.
    fn is_free_for(&self, want: Want, ticket: u64) -> bool {
        let earlier = self.queue.iter().take_while(|(other, _)| *other != ticket);
        let mut earlier = earlier.map(|(_, want)| *want);
        match want {
            Want::Alone => self.is_unused() && earlier.next().is_none(),
            Want::Beside => {
                let unread = self.alone.is_none() && self.readers.is_empty();
                unread && !earlier.any(|other| other == Want::Alone)
            }
            // Whoever waits may wait for this thread.
            Want::Read if self.beside > 0 => true,
            Want::Read if self.readers.contains(&thread::current().id()) => true,
            Want::Read => self.alone.is_none() && !earlier.any(|other| other != Want::Read),
        }
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
        if self.holds == Holds::Alone {
            self.holds = Holds::Beside;
            self.turns.change(|state| (state.alone, state.beside) = (None, state.beside + 1));
        }
    }

    /// How many other steps run beside this one.
    pub(crate) fn others(&self) -> u32 {
        let others = match self.holds {
            Holds::Alone => 0,
            Holds::Beside => self.turns.lock().beside.saturating_sub(1),
            Holds::Copying => self.turns.lock().beside,
        };
        u32::try_from(others).unwrap_or(u32::MAX)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let holds = self.holds;
        self.turns.change(|state| match holds {
            Holds::Alone => state.alone = None,
            Holds::Beside => state.beside -= 1,
            Holds::Copying => state.copying -= 1,
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
                        let turn = turns.beside(&|| false).unwrap();
                        beside.fetch_add(1, Ordering::SeqCst);
                        assert_eq!(alone.load(Ordering::SeqCst), 0);
                        beside.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                    }
                });
                threads.spawn(|| {
                    for _ in 0..rounds {
                        let mut turn = turns.alone(&|| false).unwrap();
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
        let turn = turns.alone(&|| false).unwrap();
        assert!(
            turns.alone(&|| false).is_err()
                && turns.beside(&|| false).is_err()
                && turns.read().is_err()
        );
        assert!(turns.if_unused(|| ()).is_none());
        drop(turn);
        let (first, second) = (turns.read().unwrap(), turns.read().unwrap());
        assert!(turns.alone(&|| false).is_err() && turns.beside(&|| false).is_err());
        drop((first, second));
        turns.alone(&|| false).unwrap();
    }

    /// Waits until so many threads do.
    fn until_waiting(turns: &Turns, count: usize) {
        while turns.lock().queue.len() < count {
            thread::yield_now();
        }
    }

    #[test]
    fn turns_come_in_order_of_arrival() {
        let (turns, order) = (Turns::default(), Mutex::new(Vec::new()));
        let note = |what: &'static str| order.lock().unwrap().push(what);
        thread::scope(|threads| {
            let reader = turns.read().unwrap();
            threads.spawn(|| turns.alone(&|| false).map(|_turn| note("alone")).unwrap());
            until_waiting(&turns, 1);
            // A reader that comes later does not overtake a step, nor one step another.
            threads.spawn(|| turns.read().map(|_reader| note("read")).unwrap());
            until_waiting(&turns, 2);
            threads.spawn(|| turns.beside(&|| false).map(|_turn| note("beside")).unwrap());
            until_waiting(&turns, 3);
            threads.spawn(|| turns.alone(&|| false).map(|_turn| note("alone again")).unwrap());
            until_waiting(&turns, 4);
            drop(reader);
        });
        let order = order.into_inner().unwrap();
        assert_eq!((order[0], order[3]), ("alone", "alone again"), "{order:?}");
    }

    #[test]
    fn who_waits_can_be_asked_to_stop() {
        let turns = Turns::default();
        let turn = turns.alone(&|| false).unwrap();
        thread::scope(|threads| {
            threads.spawn(|| {
                assert!(matches!(turns.alone(&|| true), Err(Error::Interrupted)));
                assert!(matches!(turns.beside(&|| true), Err(Error::Interrupted)));
            });
        });
        assert!(turns.lock().queue.is_empty());
        drop(turn);
        turns.alone(&|| false).unwrap();
    }
}
