//! How trainers that wait for each other stop at the same step.
//!
//! In sync mode a trainer that stops leaves the others waiting for its gradients. So they are
//! first held (nobody begins another step), then told how far the furthest of them is.

use std::sync::{Condvar, Mutex};

/// Decides whether a trainer begins another step.
#[derive(Debug, Default)]
pub(crate) struct Brake {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    begun: u64,
    held: bool,
    until: Option<u64>,
    save: bool,
}

/// How training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The samples are used up.
    Complete,
    /// Somebody stopped it.
    Stopped {
        /// Whether a step was made, so that there is something to save.
        save: bool,
    },
}

impl Brake {
    /// Whether to begin another step, which then counts as begun; waits while held.
    pub(crate) fn begin(&self) -> bool {
        let state = self.state.lock().expect("counting does not panic");
        let undecided = |state: &mut State| state.held && state.until.is_none();
        let mut state = self.changed.wait_while(state, undecided).expect("counting does not panic");
        if state.until.is_some_and(|until| state.begun >= until) {
            return false;
        }
        state.begun += 1;
        true
    }

    /// Lets no further step begin for now; returns how many were.
    pub(crate) fn hold(&self) -> u64 {
        let mut state = self.state.lock().expect("counting does not panic");
        state.held = true;
        state.begun
    }

    /// Lets steps begin up to this number.
    pub(crate) fn until(&self, steps: u64, save: bool) {
        let mut state = self.state.lock().expect("counting does not panic");
        (state.until, state.save) = (Some(steps), save);
        drop(state);
        self.changed.notify_all();
    }

    /// Whether the end was ordered from outside; waits for the order while held.
    pub(crate) fn end(&self) -> End {
        let state = self.state.lock().expect("counting does not panic");
        let undecided = |state: &mut State| state.held && state.until.is_none();
        let state = self.changed.wait_while(state, undecided).expect("counting does not panic");
        match state.until {
            Some(_) => End::Stopped { save: state.save },
            None => End::Complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_trainer_catches_up_and_stops() {
        let brake = Brake::default();
        assert!(brake.begin() && brake.begin());
        assert_eq!(brake.end(), End::Complete);
        assert_eq!(brake.hold(), 2);
        std::thread::scope(|scope| {
            let trainer = scope.spawn(|| (0..).take_while(|_| brake.begin()).count());
            brake.until(5, true);
            assert_eq!(trainer.join().unwrap(), 3);
        });
        assert!(brake.end() == End::Stopped { save: true } && !brake.begin());
    }

    #[test]
    fn one_that_is_further_stops_at_once() {
        let brake = Brake::default();
        assert!(brake.begin() && brake.begin());
        brake.hold();
        brake.until(1, false);
        assert!(!brake.begin());
    }
}
