//! The thread that has the system make the pages of a growing table before they are needed.
//!
//! It starts when an arena first asks for it, serves all arenas of a table, and ends when nobody
//! has asked for a while. A pull that needs it only wakes it up: to start a thread takes memory,
//! and memory is what other threads may be waiting for just then.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::arena::Arena;

/// How long the thread stays without work. A growing table asks many times a second.
const LINGER: Duration = Duration::from_millis(500);

/// Where arenas ask for pages.
#[derive(Default)]
pub(super) struct Prefault {
    state: Mutex<State>,
    asked: Condvar,
}

#[derive(Default)]
struct State {
    /// Who asked, first come first served.
    arenas: VecDeque<Arc<Arena>>,
    /// Whether the thread is there.
    running: bool,
}

impl Prefault {
    /// Has the thread call [`Arena::touch_ahead`]; says whether there is such a thread.
    pub(super) fn ask(self: &Arc<Self>, arena: &Arc<Arena>) -> bool {
        let mut state = self.state();
        if !state.running {
            let prefault = Arc::clone(self);
            let thread = std::thread::Builder::new().name("table-memory".to_owned());
            state.running = thread.spawn(move || prefault.run()).is_ok();
        }
        if state.running {
            state.arenas.push_back(Arc::clone(arena));
            self.asked.notify_one();
        }
        state.running
    }

    fn run(&self) {
        let mut state = self.state();
        loop {
            if let Some(arena) = state.arenas.pop_front() {
                drop(state);
                arena.touch_ahead();
                // Before the lock: this may be the last that holds the arena.
                drop(arena);
                state = self.state();
                continue;
            }
            let waited = self.asked.wait_timeout(state, LINGER);
            let timeout;
            (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() && state.arenas.is_empty() {
                state.running = false;
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::arena::Records;
    use super::*;

    /// One thread serves both arenas, ends when they ask no more, and comes back.
    #[test]
    fn the_thread_comes_and_goes() {
        let prefault = Arc::<Prefault>::default();
        let until = Instant::now() + Duration::from_secs(60);
        for _ in 0..2 {
            let arenas = [64, 32].map(|stride| Arc::new(Arena::new(stride, &prefault)));
            let mut records = arenas.each_ref().map(|arena| Records::new(arena, 0.0));
            for _ in 0..200_000 {
                records.iter_mut().for_each(|records| _ = records.push());
            }
            assert!(prefault.state().running);
            drop((records, arenas));
            // The arenas and the thread hold it.
            while prefault.state().running || Arc::strong_count(&prefault) > 1 {
                assert!(Instant::now() < until, "the thread ends, and the arenas are gone");
                std::thread::yield_now();
            }
        }
    }
}
