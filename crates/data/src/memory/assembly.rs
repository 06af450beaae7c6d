//! Threads that assemble batches for a card ahead of training, in the card's memory for feeds.
//!
//! Thread `t` of `n` has every `n`th batch, and the training thread takes from them in turn, so the
//! order is that of one thread. Each is ahead by two batches: one that waits, one in its hands.

use std::sync::Arc;
use std::thread::JoinHandle;

use bireme_engine::device::FeedMemory;

use super::view::Cut;
use crate::queue::{Ending, Lane};
use crate::{Batch, Error, Result, Slot};

/// Threads at most: so many bring the samples of a step as quickly as any memory has them.
const MAX_THREADS: usize = 12;

pub(super) struct Assembly {
    lanes: Vec<Arc<Lane>>,
    /// Whose turn it is.
    turn: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Assembly {
    /// Begins to assemble batch `first`, `first + step` and so on, `count` in all.
    pub(super) fn start(
        cut: &Cut,
        first: u64,
        step: u64,
        count: u64,
        slots: &[Slot],
        memory: &Arc<FeedMemory>,
    ) -> Result<Assembly> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        // The other cores have the step's own work, and whoever makes the next pass ready.
        let threads = (cores * 3 / 4).clamp(1, MAX_THREADS).min(count as usize);
        let mut assembly = Assembly { lanes: Vec::new(), turn: 0, threads: Vec::new() };
        for thread in 0..threads {
            // Of what is larger than its limit, one batch waits.
            let lane = Arc::new(Lane::new(1));
            assembly.lanes.push(Arc::clone(&lane));
            let (cut, slots, memory) = (cut.clone(), slots.to_vec(), Arc::clone(memory));
            let numbers = (thread as u64..count).step_by(threads).map(move |at| first + at * step);
            let work = move || {
                let ending = Ending(vec![Arc::clone(&lane)]);
                lane.finish(assemble(&cut, numbers, &slots, &memory, &lane));
                drop(ending);
            };
            let named = std::thread::Builder::new().name(format!("assemble-{thread}"));
            let started = named.spawn(work).map_err(|error| {
                Error::Settings(format!("cannot start a thread that assembles batches: {error}"))
            })?;
            assembly.threads.push(started);
        }
        Ok(assembly)
    }

    /// Takes the next batch, in exchange for the one in `batch`.
    pub(super) fn take(&mut self, batch: &mut Batch) -> Result<()> {
        let has_one = self.lanes[self.turn].take(batch)?;
        self.turn = (self.turn + 1) % self.lanes.len();
        match has_one {
            true => Ok(()),
            false => Err(Error::Settings("a thread that assembles batches has ended".to_owned())),
        }
    }
}

impl Drop for Assembly {
    fn drop(&mut self) {
        self.lanes.iter().for_each(|lane| lane.close());
        // They hold the samples, which others may want for themselves.
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}

fn assemble(
    cut: &Cut,
    numbers: impl Iterator<Item = u64>,
    slots: &[Slot],
    memory: &Arc<FeedMemory>,
    lane: &Lane,
) -> Result<()> {
    for number in numbers {
        let mut batch = lane.spare().unwrap_or_else(|| Batch::of(slots));
        batch.assemble_in(memory);
        cut.assemble(number, &mut batch)?;
        if !lane.send(batch) {
            break;
        }
    }
    Ok(())
}
