//! A batch of keys sorted by shard, so that each shard is locked once and its rows are fetched
//! many at a time.

use std::cell::Cell;

use super::index::hash;

/// Shards of a table; a power of two.
pub(super) const SHARDS: usize = 128;
/// Keys sorted at a time: bounds the memory of a batch and keeps its values in the cache.
const WINDOW: usize = 1 << 15;

/// A key of a batch.
#[derive(Clone, Copy, Default)]
pub(super) struct Item {
    /// The key.
    pub(super) key: u64,
    /// What the index of its shard takes of its hash.
    pub(super) hash: u32,
    /// Its place in the batch.
    pub(super) position: u32,
}

/// Memory that a thread keeps from batch to batch.
#[derive(Default)]
struct Scratch {
    hashes: Vec<u64>,
    items: Vec<Item>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// The shard of a hash.
#[inline(always)]
pub(super) fn shard_of(hash: u64) -> usize {
    hash as usize % SHARDS
}

/// Which of so many parts of a table, each of which has whole shards, has a key.
pub(crate) fn part_of(key: u64, parts: usize) -> usize {
    shard_of(hash(key)) * parts / SHARDS
}

/// The part of a hash that the index of a shard takes.
#[inline(always)]
pub(super) fn index_hash(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Calls `visit` with the first position of a window, a shard, and the window's keys in it; all
/// keys of a shard in a window come in one call, in their order. Shard `first` comes first: batches
/// of several threads should differ in it, or they queue up behind one another.
#[inline(always)]
pub(super) fn by_shard<E>(
    keys: &[u64],
    first: usize,
    mut visit: impl FnMut(usize, usize, &[Item]) -> Result<(), E>,
) -> Result<(), E> {
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let mut result = Ok(());
    // Plain loops: closures of iterators would not be compiled for this machine's vectors.
    'windows: for (window, keys) in keys.chunks(WINDOW).enumerate() {
        let starts = scratch.sort(keys);
        for shard in 0..SHARDS {
            let shard = (shard + first) % SHARDS;
            let items = &scratch.items[starts[shard] as usize..starts[shard + 1] as usize];
            if !items.is_empty() {
                result = visit(window * WINDOW, shard, items);
                if result.is_err() {
                    break 'windows;
                }
            }
        }
    }
    SCRATCH.set(Some(scratch));
    result
}

impl Scratch {
    /// A counting sort; returns where each shard starts.
    fn sort(&mut self, keys: &[u64]) -> [u32; SHARDS + 1] {
        let mut starts = [0u32; SHARDS + 1];
        self.hashes.clear();
        self.hashes.extend(keys.iter().map(|key| hash(*key)));
        for hash in &self.hashes {
            starts[shard_of(*hash) + 1] += 1;
        }
        for shard in 0..SHARDS {
            starts[shard + 1] += starts[shard];
        }
        self.items.clear();
        self.items.resize(keys.len(), Item::default());
        let mut next = starts;
        for ((position, key), hash) in (0..).zip(keys).zip(&self.hashes) {
            let at = &mut next[shard_of(*hash)];
            self.items[*at as usize] = Item { key: *key, hash: index_hash(*hash), position };
            *at += 1;
        }
        starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_visited_once_in_its_shard() {
        let keys: Vec<u64> = (0..100_000u64).map(|i| i % 70_001 * 13).collect();
        let mut seen = vec![false; keys.len()];
        let mut last = vec![0; keys.len()];
        by_shard::<()>(&keys, 77, |first, shard, items| {
            for item in items {
                let position = first + item.position as usize;
                assert_eq!(keys[position], item.key);
                assert_eq!(shard_of(hash(item.key)), shard);
                assert!(!std::mem::replace(&mut seen[position], true));
                assert!(last[shard] <= position, "in order");
                last[shard] = position;
            }
            Ok(())
        })
        .unwrap();
        assert!(seen.into_iter().all(|seen| seen));
        assert_eq!(by_shard(&keys, 0, |_, _, _| Err(7)), Err(7));
        assert_eq!(by_shard::<u8>(&[], 0, |_, _, _| Err(7)), Ok(()));
    }
}
