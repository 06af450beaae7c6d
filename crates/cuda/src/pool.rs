//! Blocks of memory cut from larger pieces: what is given back is kept, in order of size, and joined with free
//! neighbours.
//!
//! This file knows no card: a piece is whatever keeps the memory alive.

use std::collections::{BTreeMap, BTreeSet};

/// Sizes and addresses of blocks are multiples of this, as device memory is aligned.
pub(crate) const GRAIN: usize = 512;

/// Pieces, and the blocks that they are cut into.
pub(crate) struct Pool<P> {
    pieces: BTreeMap<u64, Piece<P>>,
    /// All blocks by their addresses; each address of a piece belongs to one.
    blocks: BTreeMap<u64, Block>,
    /// Free blocks by size, then address: the smallest that is large enough is found first.
    free: BTreeSet<(usize, u64)>,
    /// What a block must be longer than what is asked for, for the rest to become a block.
    least_rest: usize,
}

struct Piece<P> {
    bytes: usize,
    memory: P,
}

#[derive(Clone, Copy)]
struct Block {
    bytes: usize,
    /// The address of its piece.
    piece: u64,
    is_free: bool,
}

impl<P> Pool<P> {
    pub(crate) fn new(least_rest: usize) -> Pool<P> {
        let (pieces, blocks, free) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Pool { pieces, blocks, free, least_rest: least_rest.max(GRAIN) }
    }

    /// A block of `bytes` bytes, if a free one is large enough and not larger than `most`: its address, and how long it
    /// is. Small blocks cut from a large one would keep it from those who need all of it.
    ///
    /// # Panics
    /// When `bytes` is no multiple of [`GRAIN`].
    pub(crate) fn take(&mut self, bytes: usize, most: usize) -> Option<(u64, usize)> {
        assert!(bytes.is_multiple_of(GRAIN), "sizes are rounded by the caller");
        let (found, at) =
            *self.free.range((bytes, 0)..).next().filter(|(found, _)| *found <= most)?;
        self.free.remove(&(found, at));
        let block = self.blocks.get_mut(&at).expect("free blocks are blocks");
        block.is_free = false;
        let rest = found - bytes;
        if rest < self.least_rest {
            return Some((at, found));
        }
        block.bytes = bytes;
        let piece = block.piece;
        let next = at + bytes as u64;
        self.blocks.insert(next, Block { bytes: rest, piece, is_free: true });
        self.free.insert((rest, next));
        Some((at, bytes))
    }

    /// Adds a piece, all of it free.
    pub(crate) fn add(&mut self, at: u64, bytes: usize, memory: P) {
        self.pieces.insert(at, Piece { bytes, memory });
        self.blocks.insert(at, Block { bytes, piece: at, is_free: true });
        self.free.insert((bytes, at));
    }

    /// Takes a block back; returns how long it was.
    pub(crate) fn give_back(&mut self, at: u64) -> usize {
        let Some(block) = self.blocks.get(&at).copied().filter(|block| !block.is_free) else {
            return 0;
        };
        let (mut start, mut bytes) = (at, block.bytes);
        if let Some((after, next)) = self.blocks.range(at + 1..).next().map(|(at, b)| (*at, *b))
            && next.is_free
            && next.piece == block.piece
        {
            self.blocks.remove(&after);
            self.free.remove(&(next.bytes, after));
            bytes += next.bytes;
        }
        if let Some((before, last)) = self.blocks.range(..at).next_back().map(|(at, b)| (*at, *b))
            && last.is_free
            && last.piece == block.piece
        {
            self.blocks.remove(&at);
            self.free.remove(&(last.bytes, before));
            start = before;
            bytes += last.bytes;
        }
        self.blocks.insert(start, Block { bytes, piece: block.piece, is_free: true });
        self.free.insert((bytes, start));
        block.bytes
    }

    /// Pieces of which nothing is used: they are the caller's from now on.
    pub(crate) fn unused(&mut self) -> Vec<P> {
        let is_unused = |at: &u64, piece: &Piece<P>| {
            self.blocks.get(at).is_some_and(|block| block.is_free && block.bytes == piece.bytes)
        };
        let unused = self.pieces.iter().filter(|(at, piece)| is_unused(at, piece));
        let unused: Vec<u64> = unused.map(|(at, _)| *at).collect();
        let mut memory = Vec::new();
        for at in unused {
            self.blocks.remove(&at);
            if let Some(piece) = self.pieces.remove(&at) {
                self.free.remove(&(piece.bytes, at));
                memory.push(piece.memory);
            }
        }
        memory
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_are_cut_and_joined_again() {
        let mut pool = Pool::new(GRAIN);
        assert_eq!(pool.take(GRAIN, usize::MAX), None);
        pool.add(0x10000, 8 * GRAIN, ());
        let (a, _) = pool.take(GRAIN, usize::MAX).unwrap();
        let (b, _) = pool.take(2 * GRAIN, usize::MAX).unwrap();
        let (c, _) = pool.take(5 * GRAIN, usize::MAX).unwrap();
        assert_eq!([a, b, c], [0x10000, 0x10000 + 512, 0x10000 + 3 * 512]);
        assert_eq!(pool.take(GRAIN, usize::MAX), None);
        pool.give_back(a);
        pool.give_back(c);
        // The smaller one that is large enough.
        assert_eq!(pool.take(GRAIN, usize::MAX), Some((a, GRAIN)));
        pool.give_back(a);
        assert!(pool.unused().is_empty());
        pool.give_back(b);
        assert_eq!(pool.take(8 * GRAIN, usize::MAX), Some((a, 8 * GRAIN)));
        pool.give_back(a);
        assert_eq!(pool.unused().len(), 1);
        assert_eq!(pool.take(GRAIN, usize::MAX), None);
    }

    #[test]
    fn a_block_that_is_too_large_is_left_alone() {
        let mut pool = Pool::new(GRAIN);
        pool.add(0x10000, 8 * GRAIN, ());
        assert_eq!(pool.take(GRAIN, 7 * GRAIN), None);
        assert_eq!(pool.take(GRAIN, 8 * GRAIN), Some((0x10000, GRAIN)));
    }

    #[test]
    fn a_small_rest_stays_with_its_block() {
        let mut pool = Pool::new(4 * GRAIN);
        pool.add(0x10000, 8 * GRAIN, ());
        assert_eq!(pool.take(5 * GRAIN, usize::MAX), Some((0x10000, 8 * GRAIN)));
        assert_eq!(pool.give_back(0x10000), 8 * GRAIN);
        assert_eq!(pool.give_back(0x10000), 0);
    }

    proptest! {
        /// Blocks in use never overlap and lie in pieces; once all are back, so is every piece.
        #[test]
        fn blocks_never_overlap(asked in prop::collection::vec((1usize..40, any::<prop::sample::Index>(), any::<bool>()), 1..120)) {
            let mut pool = Pool::new(2 * GRAIN);
            let mut pieces = 0u64;
            let mut live: Vec<(u64, usize)> = Vec::new();
            for (grains, which, free) in asked {
                if free && !live.is_empty() {
                    let (at, bytes) = live.swap_remove(which.index(live.len()));
                    prop_assert_eq!(pool.give_back(at), bytes);
                    continue;
                }
                let bytes = grains * GRAIN;
                let taken = pool.take(bytes, usize::MAX).or_else(|| {
                    // Some pieces are neighbours: blocks of different pieces are not joined.
                    pool.add(0x10000 + pieces * 32 * GRAIN as u64 * 2, bytes.max(32 * GRAIN), ());
                    pieces += 1;
                    pool.take(bytes, usize::MAX)
                });
                let (at, long) = taken.unwrap();
                prop_assert!(long >= bytes && long < bytes + 2 * GRAIN);
                for (other, length) in &live {
                    prop_assert!(at + long as u64 <= *other || other + *length as u64 <= at);
                }
                live.push((at, long));
            }
            for (at, _) in live {
                pool.give_back(at);
            }
            prop_assert_eq!(pool.unused().len() as u64, pieces);
            prop_assert!(pool.blocks.is_empty() && pool.free.is_empty());
        }
    }
}
