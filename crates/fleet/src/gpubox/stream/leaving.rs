//! Records that have left the card, or will have by the time anybody asks, on their way to the servers.
//!
//! A key that comes back before the servers have its record takes the record from here. So nobody waits
//! for a push, and nobody is given what is out of date. Blocks are pushed in the order in which they
//! left; a key that left twice is then on the servers as it was the second time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bireme_ps::worker::Worker;

use super::super::giving;
use super::super::plan::PassTable;
use super::super::resident::leave_out_unmade;
use crate::Result;

/// Keys of one table that leave together.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) table: usize,
    pub(super) keys: Vec<u64>,
    /// Set when the records were read, which is done before any later batch is trained.
    left: OnceLock<Left>,
}

#[derive(Debug)]
struct Left {
    /// Records, in the order of the keys.
    records: Vec<f32>,
    /// Which of them the servers do not have.
    is_trained: Vec<bool>,
    /// Steps that were trained before they left.
    step: u64,
}

impl Block {
    pub(super) fn new(table: usize, keys: Vec<u64>) -> Arc<Block> {
        Arc::new(Block { table, keys, left: OnceLock::new() })
    }

    /// Says what was read.
    pub(super) fn set(&self, records: Vec<f32>, is_trained: Vec<bool>, step: u64) {
        self.left.get_or_init(|| Left { records, is_trained, step });
    }

    /// The record of the key at `place`, of so many numbers; `None` before it was read.
    pub(super) fn record(&self, place: usize, width: usize) -> Option<&[f32]> {
        self.left.get()?.records.get(place * width..(place + 1) * width)
    }

    /// Gives the servers what they do not have.
    pub(super) fn push(&self, table: &PassTable, worker: &Worker) -> Result<()> {
        let Some(Left { records, is_trained, step }) = self.left.get() else { return Ok(()) };
        let width = table.record_width();
        let (mut keys, mut trained) = (Vec::new(), Vec::new());
        for (at, key) in self.keys.iter().enumerate().filter(|(at, _)| is_trained[*at]) {
            keys.push(*key);
            trained.extend_from_slice(&records[at * width..][..width]);
        }
        leave_out_unmade(table, &mut keys, &mut trained);
        match keys.is_empty() {
            true => Ok(()),
            false => giving::push(table, worker, &keys, &trained, *step),
        }
    }
}

/// The blocks that the servers do not have yet, by key.
#[derive(Default)]
pub(super) struct Leaving(Mutex<ByKey>);

/// The block that has the record of a key, and where; by table and key.
type ByKey = HashMap<(usize, u64), Place>;
pub(super) type Place = (Arc<Block>, usize);

impl Leaving {
    /// Remembers who leaves with a block.
    pub(super) fn add(&self, block: &Arc<Block>) {
        let mut all = self.lock();
        for (place, key) in block.keys.iter().enumerate() {
            all.insert((block.table, *key), (Arc::clone(block), place));
        }
    }

    /// Where the records of keys are; `None` for those that the servers have.
    pub(super) fn find(&self, table: usize, keys: &[u64]) -> Vec<Option<Place>> {
        let all = self.lock();
        keys.iter().map(|key| all.get(&(table, *key)).cloned()).collect()
    }

    /// The servers have a block.
    pub(super) fn arrived(&self, block: &Arc<Block>) {
        let mut all = self.lock();
        for key in &block.keys {
            let key = (block.table, *key);
            // It may have come back and left again since.
            if all.get(&key).is_some_and(|(known, _)| Arc::ptr_eq(known, block)) {
                all.remove(&key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ByKey> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_left_twice_is_found_where_it_left_last() {
        let leaving = Leaving::default();
        let (first, second) = (Block::new(0, vec![5, 7]), Block::new(0, vec![7]));
        leaving.add(&first);
        leaving.add(&second);
        first.set(vec![1.0, 2.0, 3.0, 4.0], vec![true, true], 1);
        leaving.arrived(&first);
        assert!(leaving.find(1, &[7])[0].is_none());
        let [None, Some((block, place))] = &leaving.find(0, &[5, 7])[..] else {
            panic!("one is left")
        };
        assert!(block.record(*place, 2).is_none(), "it was not read yet");
        second.set(vec![5.0, 6.0], vec![true], 2);
        assert_eq!(block.record(*place, 2).unwrap(), [5.0, 6.0]);
        leaving.arrived(&second);
        assert!(leaving.find(0, &[7])[0].is_none());
    }
}
