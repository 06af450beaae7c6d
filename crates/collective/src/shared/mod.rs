//! Calls within one host, through memory that all ranks map.
//!
//! Every rank has an area that it alone writes. A call is a sequence of phases: in each, a rank
//! writes what the others need, posts the number of the phase, and reads the others' areas when all
//! have posted. Each area has slots that are used in turn, at least two: who writes for phase p has
//! seen all others post p - 1, so all are done with p - 2 and before, whose slots are free.
//!
//! Every post carries the description of its call, so ranks that disagree learn it here too. A rank
//! that dies is noticed by its channel, at which a rank that waits for long looks.
#![expect(unsafe_code, reason = "the control blocks of all ranks are read here")]

mod control;
mod copy;
mod forming;
mod moves;
mod reduce;
mod segment;

use std::sync::atomic::{AtomicU32, Ordering};

use crate::group::Turn;
use crate::{Error, Result};
pub(crate) use forming::{Hosts, Sharing, host};

use control::{Control, Patience};
use copy::Writer;
use segment::Segment;

/// Bytes of one slot of a rank's area for what it gives to others.
const INPUT: usize = 512 << 10;
/// Bytes of one slot of a rank's area for what it has reduced.
const OUTPUT: usize = 256 << 10;
/// Slots of an area, used in turn. Two would be safe; with more, a slot has left the others' caches
/// when it is written again.
const SLOTS: usize = 8;
/// Parts of areas begin at cache lines.
const LINE: usize = 64;

/// The memory that the ranks of a group on one host share.
pub(crate) struct Local {
    segment: Segment,
    rank: usize,
    size: usize,
    patience: Patience,
    writer: Writer,
    /// The last phase that was posted; the same on all ranks between two calls.
    phase: AtomicU32,
}

impl Local {
    fn bytes(ranks: usize) -> usize {
        ranks * Local::area_bytes()
    }

    fn area_bytes() -> usize {
        size_of::<Control>() + SLOTS * (INPUT + OUTPUT)
    }

    fn control(&self, rank: usize) -> &Control {
        let at = rank * Local::area_bytes();
        // SAFETY: the segment holds an area for each rank that begins with a control block, which
        // is made of atomics; it was zeroed when it was made, and zero is valid for them.
        unsafe { &*self.segment.pointer(at, size_of::<Control>()).cast::<Control>() }
    }

    /// What `rank` gives to others in a phase.
    fn input(&self, rank: usize, phase: u32) -> *mut u8 {
        let slot = phase as usize % SLOTS * INPUT;
        self.segment.pointer(rank * Local::area_bytes() + size_of::<Control>() + slot, INPUT)
    }

    /// What `rank` has reduced before a phase.
    fn output(&self, rank: usize, phase: u32) -> *mut u8 {
        let slot = SLOTS * INPUT + phase as usize % SLOTS * OUTPUT;
        self.segment.pointer(rank * Local::area_bytes() + size_of::<Control>() + slot, OUTPUT)
    }

    /// The phase that comes next.
    fn next_phase(&self) -> u32 {
        self.phase.load(Ordering::Relaxed).wrapping_add(1)
    }

    /// Tells the others that everything for the next phase is written.
    fn post(&self, turn: &Turn<'_>) -> u32 {
        let phase = self.next_phase();
        self.phase.store(phase, Ordering::Relaxed);
        self.control(self.rank).post(phase, turn.sequence(), turn.call());
        phase
    }

    /// Waits until all ranks have posted a phase of the same call.
    fn wait_all(&self, turn: &Turn<'_>, phase: u32) -> Result<()> {
        for step in 1..self.size {
            let rank = (self.rank + step) % self.size;
            self.wait(turn, phase, rank)?;
        }
        Ok(())
    }

    fn wait(&self, turn: &Turn<'_>, phase: u32, rank: usize) -> Result<()> {
        let control = self.control(rank);
        if !control.has_posted(phase) {
            let patience = match turn.is_in_background() {
                true => Patience::beside_others(),
                false => self.patience,
            };
            patience.wait(control, phase, |waited| turn.check_peer(rank, waited))?;
        }
        let (sequence, theirs) = control.description(phase);
        if sequence == turn.sequence() && turn.call().agrees(theirs) {
            return Ok(());
        }
        Err(Error::Mismatch {
            peer: turn.name(rank),
            ours: turn.call().to_string(),
            theirs: theirs.to_string(),
        })
    }

    /// One phase with nothing to say.
    pub(crate) fn barrier(&self, turn: &Turn<'_>) -> Result<()> {
        let phase = self.post(turn);
        self.wait_all(turn, phase)
    }
}
