//! An index that grows in small steps, so that no batch has to wait until a large one is built.
//!
//! When an index is nearly full, a larger one is made beside it: first its lines, a few with each
//! record that is added, then the entries of the records that are there, a few with each as well.
//! Meanwhile a key is looked up in both. Records do not move, so a slot that was found stays right.

use std::sync::Arc;

use super::arena::Arena;
use super::index::{Index, NONE};

/// Entries moved, or lines made, with a record that is added. The larger index is a quarter
/// larger: from 4 on, the entries would be there before it is full in turn.
const STEP: u32 = 16;
/// Steps with each batch, so that an index is whole some time after its last record came.
const STEPS_OF_BATCH: u32 = 8;

/// The index of one shard.
pub(super) struct GrowingIndex {
    /// Takes new entries.
    index: Index,
    /// What was `index` before, until its entries have moved; without lines when they have.
    old: Index,
    /// What will be `index` when it has `wanted` lines.
    next: Index,
    /// How many lines; 0 when nothing is being made.
    wanted: u32,
    /// Entries of these slots are still to move from `old`.
    moves: std::ops::Range<u32>,
    /// Where its sizes lie between those of other shards, from 0 to 1.
    phase: f64,
}

/// The next of a row of sizes, each a quarter more than the last: a power of two would leave half
/// of the memory unused after each growth.
fn next_room(rows: usize, phase: f64) -> usize {
    const GROWTH: f64 = 1.25;
    let mut room = 16.0 * GROWTH.powf(phase);
    while room <= rows as f64 {
        room *= GROWTH;
    }
    room as usize + 1
}

impl GrowingIndex {
    /// No entries, nor any memory yet; it comes from `arena`. Shards of one table should differ in
    /// `phase` (from 0 to 1), because they grow at the same pace.
    pub(super) fn empty(arena: &Arc<Arena>, phase: f64) -> GrowingIndex {
        let [index, old, next] = [(); 3].map(|()| Index::empty(arena));
        GrowingIndex { index, old, next, wanted: 0, moves: 0..0, phase }
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.index.bytes() + self.old.bytes() + self.next.bytes()
    }

    /// Asks for the first line of `hash`.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u32) {
        self.index.prefetch(hash);
        self.old.prefetch(hash);
    }

    /// The first slot that may be that of `hash`, or [`NONE`]; a guess to be checked.
    #[inline(always)]
    pub(super) fn guess(&self, hash: u32) -> u32 {
        let slot = self.index.guess(hash);
        if slot == NONE { self.old.guess(hash) } else { slot }
    }

    /// The slot of `hash` that `is` the right one.
    pub(super) fn find(&self, hash: u32, is: impl Fn(u32) -> bool + Copy) -> Option<u32> {
        self.index.find(hash, is).or_else(|| self.old.find(hash, is))
    }

    /// Adds an entry that is not there yet, for the record after all others, and grows by a step
    /// if need be; `hash_of` says the hash of the record in a slot.
    pub(super) fn insert(&mut self, hash: u32, slot: u32, hash_of: impl Fn(u32) -> u32) {
        if self.is_growing() {
            self.step(slot, hash_of);
        } else if !self.index.has_room() {
            let lines = Index::lines_for(next_room(slot as usize, self.phase));
            if self.index.lines() == 0 {
                self.index.add_lines(lines, u32::MAX);
            } else {
                self.wanted = lines;
            }
        }
        self.index.insert(hash, slot);
    }

    /// Goes on with a growth that has begun; there are `slots` records.
    #[inline(always)]
    pub(super) fn advance(&mut self, slots: u32, hash_of: impl Fn(u32) -> u32) {
        if self.is_growing() {
            self.take_steps(slots, hash_of);
        }
    }

    /// Replaces it by an index of the records in the first `slots` slots.
    pub(super) fn build(&mut self, slots: u32, hash_of: impl Fn(u32) -> u32) {
        self.clear();
        self.index.add_lines(Index::lines_for(next_room(slots as usize, self.phase)), u32::MAX);
        (0..slots).for_each(|slot| self.index.insert(hash_of(slot), slot));
    }

    /// Drops every entry.
    pub(super) fn clear(&mut self) {
        for index in [&mut self.index, &mut self.old, &mut self.next] {
            *index = index.empty_like();
        }
        (self.wanted, self.moves) = (0, 0..0);
    }

    #[inline(always)]
    fn is_growing(&self) -> bool {
        self.wanted > 0 || self.old.lines() > 0
    }

    #[inline(never)]
    fn take_steps(&mut self, slots: u32, hash_of: impl Fn(u32) -> u32) {
        for _ in 0..STEPS_OF_BATCH {
            if self.is_growing() {
                self.step(slots, &hash_of);
            }
        }
    }

    /// Makes some lines, or moves some entries.
    fn step(&mut self, slots: u32, hash_of: impl Fn(u32) -> u32) {
        if self.wanted > 0 {
            if self.next.add_lines(self.wanted, STEP) {
                let next = std::mem::replace(&mut self.next, self.old.empty_like());
                self.old = std::mem::replace(&mut self.index, next);
                (self.wanted, self.moves) = (0, 0..slots);
            }
            return;
        }
        let first = self.moves.start;
        let count = STEP.min(self.moves.end - first);
        let mut hashes = [0; STEP as usize];
        // All lines are on their way from memory before the first is written to.
        for (hash, slot) in hashes.iter_mut().zip(first..first + count) {
            *hash = hash_of(slot);
            self.index.prefetch(*hash);
        }
        for (hash, slot) in hashes.iter().zip(first..first + count) {
            self.index.insert(*hash, slot);
        }
        self.moves.start += count;
        if self.moves.is_empty() {
            self.old = self.old.empty_like();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::index::{LINE, hash};
    use super::*;

    fn hash_of(slot: u32) -> u32 {
        (hash(u64::from(slot)) >> 32) as u32
    }

    fn has(index: &GrowingIndex, slot: u32) -> bool {
        index.find(hash_of(slot), |found| found == slot) == Some(slot)
    }

    fn empty(phase: f64) -> GrowingIndex {
        GrowingIndex::empty(&Arc::new(Arena::new(LINE, &Arc::default())), phase)
    }

    /// What one call does is bounded, whatever the size: lines made and entries moved.
    #[test]
    fn growth_goes_in_steps() {
        let mut index = empty(0.3);
        let (mut lines_before, mut growths) = (0, 0);
        for slot in 0..100_000 {
            let (made, moves) = (index.next.lines(), index.moves.clone());
            let was_old = index.old.lines();
            index.insert(hash_of(slot), slot, hash_of);
            if index.next.lines() > made {
                assert!(index.next.lines() - made <= STEP);
            }
            if was_old > 0 {
                assert!(index.moves.start - moves.start <= STEP);
            }
            growths += u32::from(index.index.lines() > lines_before);
            lines_before = index.index.lines();
            // At most a few percent above the four fifths that are meant.
            let entries = index.index.lines() as usize * LINE;
            assert!(slot < 200 || (slot as usize) < entries * 83 / 100 || index.old.lines() > 0);
            assert!(has(&index, slot) && has(&index, slot / 2) && has(&index, slot / 3));
        }
        assert!(growths > 30);
        assert!((0..100_000).all(|slot| has(&index, slot)));
        assert_eq!(index.find(hash_of(100_001), |_| false), None);
    }

    #[test]
    fn batches_finish_what_records_began() {
        let mut index = empty(0.0);
        let mut slots = 0;
        while slots < 50_000 || index.wanted == 0 {
            index.insert(hash_of(slots), slots, hash_of);
            slots += 1;
        }
        let bytes = index.bytes();
        let mut batches = 0;
        while index.is_growing() {
            index.advance(slots, hash_of);
            assert!((0..slots).step_by(97).all(|slot| has(&index, slot)));
            batches += 1;
        }
        assert!(batches > slots / (STEP * STEPS_OF_BATCH), "{batches}");
        assert!(index.bytes() > bytes && index.bytes() < bytes * 3 / 2, "the old one is gone");
        assert!((0..slots).all(|slot| has(&index, slot)));
    }

    #[derive(Clone, Debug)]
    enum Action {
        Insert(u32),
        Advance(u32),
        Build(u32),
        Clear,
    }

    proptest! {
        /// At any time, in any phase, exactly the entries are there that should be.
        #[test]
        fn an_index_has_its_entries(
            phase in 0.0..1.0,
            actions in prop::collection::vec(prop_oneof![
                8 => (0u32..2000).prop_map(Action::Insert),
                4 => (0u32..20).prop_map(Action::Advance),
                1 => (0u32..100).prop_map(Action::Build),
                1 => Just(Action::Clear),
            ], 1..12),
        ) {
            let mut index = empty(phase);
            let mut slots = 0u32;
            for action in actions {
                match action {
                    Action::Insert(count) => for _ in 0..count {
                        index.insert(hash_of(slots), slots, hash_of);
                        slots += 1;
                    },
                    Action::Advance(count) => (0..count).for_each(|_| index.advance(slots, hash_of)),
                    Action::Build(percent) => {
                        slots = slots * percent / 100;
                        index.build(slots, hash_of);
                    }
                    Action::Clear => {
                        slots = 0;
                        index.clear();
                    }
                }
                prop_assert!((0..slots).all(|slot| has(&index, slot)));
                let beyond = |slot: u32| index.find(hash_of(slot), |found| found == slot);
                prop_assert!((slots..slots + 50).all(|slot| beyond(slot).is_none()));
            }
        }
    }
}
