//! From a key's hash to the place of its record: open addressing over lines of sixteen entries.
//!
//! An entry is a tag of 8 bits and a slot of 24. One cache line answers nearly every question, and
//! a wrong tag is met once in sixteen; the record holds the key that decides. Entries are never
//! removed one by one: a shard that drops rows builds its index anew. Lines lie in an arena like
//! records, because an index is read at random too and should be on huge pages. An index has its
//! size for good once it has entries; [`super::growth`] goes on to a larger one.

use std::sync::Arc;

use super::arena::{Arena, Records};

/// Entries in a line.
pub(super) const LINE: usize = 16;
/// Bits of a slot in an entry.
const SLOT_BITS: u32 = 24;
/// No slot.
pub(super) const NONE: u32 = u32::MAX;
/// The most records that one index can name.
pub(super) const MOST: usize = 1 << SLOT_BITS;

/// The index of one shard.
pub(super) struct Index {
    /// Lines of sixteen entries, filled from the first on; 0 is an empty one.
    lines: Records,
    len: usize,
}

/// The hash of a key: its shard in the low bits, what the index takes in the high ones.
#[inline(always)]
pub(super) fn hash(key: u64) -> u64 {
    // The finaliser of MurmurHash3, which is a bijection.
    let mut h = key;
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

/// A tag is never 0, which is an empty entry's.
#[inline(always)]
fn tag(hash: u32) -> u32 {
    (hash & 0xff).max(1)
}

/// Which entries of a line have this tag, as bits.
#[inline(always)]
fn matching(line: &[u32], tag: u32) -> u32 {
    let mut found = 0;
    for (bit, entry) in line[..LINE].iter().enumerate() {
        found |= u32::from(entry >> SLOT_BITS == tag) << bit;
    }
    found
}

impl Index {
    /// No room, nor any memory; lines come from `arena`.
    pub(super) fn empty(arena: &Arc<Arena>) -> Index {
        Index { lines: Records::new(arena, 0.0), len: 0 }
    }

    /// An empty index without room, from the same arena.
    pub(super) fn empty_like(&self) -> Index {
        Index { lines: self.lines.empty_like(), len: 0 }
    }

    /// Lines that an index for `rows` records has: at most 4 entries of 5 are used.
    pub(super) fn lines_for(rows: usize) -> u32 {
        (rows * 5).div_ceil(4 * LINE).max(1) as u32
    }

    /// Its lines.
    #[inline(always)]
    pub(super) fn lines(&self) -> u32 {
        self.lines.len()
    }

    /// Adds empty lines to an index without entries, up to `most` of them. Says whether there are
    /// `lines` now.
    pub(super) fn add_lines(&mut self, lines: u32, most: u32) -> bool {
        debug_assert_eq!(self.len, 0, "an entry's place depends on the number of lines");
        for _ in 0..most.min(lines - self.lines()) {
            self.lines.push();
        }
        self.lines() == lines
    }

    /// Whether another entry fits well; if not, it is time for a larger index.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        (self.len + 1) * 5 <= self.lines.len() as usize * (4 * LINE)
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.lines.bytes()
    }

    /// The line where the search for `hash` starts.
    #[inline(always)]
    fn home(&self, hash: u32) -> u32 {
        ((u64::from(hash) * u64::from(self.lines.len())) >> 32) as u32
    }

    #[inline(always)]
    fn line(&self, number: u32) -> &[u32] {
        bytemuck::cast_slice(self.lines.row(number))
    }

    /// Asks for the first line of `hash`.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u32) {
        if self.lines.len() > 0 {
            self.lines.prefetch(self.home(hash), 1);
        }
    }

    /// The first slot that may be that of `hash`, or [`NONE`]; a guess to be checked.
    #[inline(always)]
    pub(super) fn guess(&self, hash: u32) -> u32 {
        if self.lines.len() == 0 {
            return NONE;
        }
        let line = self.line(self.home(hash));
        match matching(line, tag(hash)) {
            0 => NONE,
            found => line[(found.trailing_zeros() as usize) % LINE] & (MOST as u32 - 1),
        }
    }

    /// The slot of `hash` that `is` the right one.
    pub(super) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        for _ in 0..self.lines.len() {
            let line = self.line(at);
            let mut found = matching(line, tag(hash));
            while found != 0 {
                let slot = line[found.trailing_zeros() as usize] & (MOST as u32 - 1);
                if is(slot) {
                    return Some(slot);
                }
                found &= found - 1;
            }
            if line[LINE - 1] == 0 {
                return None;
            }
            at = (at + 1) % self.lines.len();
        }
        None
    }

    /// Adds an entry that is not there yet.
    ///
    /// # Panics
    /// When every entry is taken.
    pub(super) fn insert(&mut self, hash: u32, slot: u32) {
        let fits = self.len < self.lines.len() as usize * LINE && (slot as usize) < MOST;
        assert!(fits, "the index has room");
        let mut at = self.home(hash);
        while self.line(at)[LINE - 1] != 0 {
            at = (at + 1) % self.lines.len();
        }
        let line: &mut [u32] = bytemuck::cast_slice_mut(self.lines.row_mut(at));
        let empty = line.iter_mut().find(|entry| **entry == 0);
        *empty.expect("the last entry is empty") = tag(hash) << SLOT_BITS | slot;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Index {
        Index::empty(&Arc::new(Arena::new(LINE, &Arc::default())))
    }

    fn with_room(rows: usize) -> Index {
        let mut index = empty();
        let lines = Index::lines_for(rows);
        assert!(!index.add_lines(lines, 1) && index.add_lines(lines, u32::MAX));
        index
    }

    #[test]
    fn what_went_in_is_found() {
        let mut index = with_room(1000);
        let hashes: Vec<u32> = (0..1000u64).map(|key| (hash(key) >> 32) as u32).collect();
        for (slot, hash) in hashes.iter().enumerate() {
            index.insert(*hash, slot as u32);
        }
        for (slot, hash) in hashes.iter().enumerate() {
            assert_eq!(index.find(*hash, |found| found == slot as u32), Some(slot as u32));
            assert_ne!(index.guess(*hash), NONE - 1);
        }
        assert_eq!(index.find((hash(5000) >> 32) as u32, |_| false), None);
        let empty = empty();
        assert_eq!((empty.guess(7), empty.find(7, |_| true)), (NONE, None));
        assert!(!empty.has_room());
    }

    #[test]
    fn full_lines_overflow_into_the_next_and_wrap() {
        let mut index = with_room(40);
        // All of them belong to the last line.
        for slot in 0..40 {
            index.insert(u32::MAX, slot);
        }
        assert!((0..40).all(|slot| index.find(u32::MAX, |found| found == slot) == Some(slot)));
        assert_eq!(index.find(u32::MAX, |_| false), None);
    }
}
