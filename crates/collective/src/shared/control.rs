//! How a rank tells the others that it has come to a phase, and how they wait for it: turning for a
//! moment, then letting others have the processor, then asleep.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::Timespec;
use rustix::io::Errno;
use rustix::thread::futex;

use crate::Result;
use crate::call::Call;

/// Longest sleep before the waiting rank looks whether the other is alive.
const SLEEP: Duration = Duration::from_millis(50);

/// What one rank tells the others. On lines of its own, so that nobody else's writes slow it down.
#[repr(C, align(256))]
pub(super) struct Control {
    /// The last phase for which everything is written.
    posted: AtomicU32,
    /// How many wait asleep for `posted` to change.
    sleepers: AtomicU32,
    /// The call of the last phase that is even, and of the last that is odd.
    calls: [Described; 2],
}

#[repr(C)]
struct Described {
    /// Number of the call, and its method in the upper 16 bits.
    sequence: AtomicU64,
    note: AtomicU64,
}

impl Control {
    pub(super) fn post(&self, phase: u32, sequence: u64, call: Call) {
        let described = &self.calls[(phase & 1) as usize];
        described.sequence.store(sequence | u64::from(call.method) << 48, Ordering::Relaxed);
        described.note.store(call.note, Ordering::Relaxed);
        // The strongest order: a sleeper must be seen here, or must see this.
        self.posted.store(phase, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // Fails for no valid address.
            let _ = futex::wake(&self.posted, futex::Flags::empty(), u32::MAX >> 1);
        }
    }

    pub(super) fn has_posted(&self, phase: u32) -> bool {
        is_reached(self.posted.load(Ordering::Acquire), phase)
    }

    /// The call that was posted with a phase, which [`Control::has_posted`].
    pub(super) fn description(&self, phase: u32) -> (u64, Call) {
        let described = &self.calls[(phase & 1) as usize];
        let sequence = described.sequence.load(Ordering::Relaxed);
        let note = described.note.load(Ordering::Relaxed);
        (sequence & (u64::MAX >> 16), Call { method: (sequence >> 48) as u16, note })
    }

    /// Sleeps until the next post, or for this long.
    fn sleep(&self, phase: u32, time: Duration) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let posted = self.posted.load(Ordering::SeqCst);
        if !is_reached(posted, phase) {
            let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
            match futex::wait(&self.posted, futex::Flags::empty(), posted, Some(&time)) {
                // Woken, late, or changed before we slept: the caller looks again.
                Ok(()) | Err(Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR) => {}
                Err(_) => std::thread::yield_now(),
            }
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Phases count around.
fn is_reached(posted: u32, phase: u32) -> bool {
    posted.wrapping_sub(phase) < u32::MAX / 2
}

/// How long a rank waits in which way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Looks in a row. Pays where each rank has a processor: the other comes in a moment.
    turns: u32,
    /// Looks between which other processes may run.
    yields: u32,
}

impl Patience {
    /// What fits as many ranks on as many processors.
    pub(super) fn new(ranks: usize, processors: usize) -> Patience {
        if ranks <= processors {
            Patience { turns: 4000, yields: 20 }
        } else {
            // Turning would keep the processor from the rank that is awaited.
            Patience { turns: 0, yields: 40 }
        }
    }

    /// For a thread beside which others of its process compute: the processor is theirs.
    pub(super) fn beside_others() -> Patience {
        Patience { turns: 100, yields: 2 }
    }

    /// Waits until a rank has posted a phase; `check` is asked between two sleeps whether that
    /// makes sense still, and told how long it has lasted.
    pub(super) fn wait(
        self,
        control: &Control,
        phase: u32,
        mut check: impl FnMut(Duration) -> Result<()>,
    ) -> Result<()> {
        for _ in 0..self.turns {
            spin_loop();
            if control.has_posted(phase) {
                return Ok(());
            }
        }
        for _ in 0..self.yields {
            std::thread::yield_now();
            if control.has_posted(phase) {
                return Ok(());
            }
        }
        let start = Instant::now();
        loop {
            control.sleep(phase, SLEEP);
            if control.has_posted(phase) {
                return Ok(());
            }
            let problem = check(start.elapsed());
            // A rank that has left may have posted before.
            if problem.is_err() && !control.has_posted(phase) {
                return problem;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Kind;

    fn control() -> Control {
        let described = || Described { sequence: AtomicU64::new(0), note: AtomicU64::new(0) };
        Control {
            posted: AtomicU32::new(0),
            sleepers: AtomicU32::new(0),
            calls: [described(), described()],
        }
    }

    #[test]
    fn phases_count_around() {
        assert!(is_reached(5, 5) && is_reached(6, 5) && !is_reached(4, 5));
        assert!(is_reached(1, u32::MAX) && !is_reached(u32::MAX, 1));
    }

    #[test]
    fn a_post_wakes_who_sleeps() {
        let control = control();
        let call = Call::new(Kind::Broadcast, 12, 3);
        let patience = Patience::new(2, 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                patience.wait(&control, 1, |_| Ok(())).unwrap();
                patience.wait(&control, 2, |_| Ok(())).unwrap();
            });
            control.post(1, 7, call);
            while control.sleepers.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            control.post(2, 8, Call::new(Kind::Barrier, 0, 0));
            waiting.join().unwrap();
        });
        assert_eq!(control.description(1), (7, call));
        assert_eq!(control.description(2), (8, Call::new(Kind::Barrier, 0, 0)));
    }
}
