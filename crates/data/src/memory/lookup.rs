//! Looks up the row numbers of the ids of samples in memory, chunk by chunk.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bireme_engine::ops::PassIndex;

use super::chunk::Chunk;
use super::pages;
use super::rows::{ChunkRows, NONE, RowNumbers};
use super::store::Store;
use super::{Held, MemoryDataset};
use crate::{Error, Result};

/// Samples whose ids are looked up together, slot by slot: so many records and their row numbers lie in
/// the cache, and the index is asked for ahead.
const TOGETHER: usize = 512;

/// A slot whose ids are keys of a table.
pub struct KeySlot<'a> {
    /// The slot.
    pub name: &'a str,
    /// The rows of the table's keys.
    pub index: &'a PassIndex,
    /// The key that stands for nothing, whose row is 0.
    pub padding: Option<u64>,
}

impl MemoryDataset {
    /// Looks up the rows of all ids in some slots, by so many threads; of the samples of these batches
    /// alone, if some are named. An id without a row is no error before a batch has it.
    ///
    /// # Errors
    /// When a slot does not exist or has no ids.
    pub fn row_numbers(
        &self,
        slots: &[KeySlot<'_>],
        batches: Option<Range<u64>>,
        threads: usize,
    ) -> Result<RowNumbers> {
        let known = &self.settings().slots;
        let mut placed = Vec::new();
        for slot in slots {
            let at = known.iter().position(|known| known.name == slot.name);
            let is_ids = |at: &usize| known[*at].kind == crate::Kind::Ids;
            let at = at.filter(is_ids).ok_or_else(|| {
                Error::Settings(format!("the dataset has no slot of ids `{}`", slot.name))
            })?;
            placed.push((at, slot));
        }
        placed.sort_by_key(|(at, _)| *at);
        let store = &self.held.store;
        let needed = batches.clone().map(|batches| self.needed(batches));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(chunk) = store.chunks.get(at) else { return found };
                let needed = needed.as_ref().map(|needed| &needed[at][..]);
                if needed.is_none_or(|needed| needed.contains(&true)) {
                    found.push((at, resolve(chunk, &placed, needed)));
                }
            }
        };
        let mut chunks: Vec<Option<ChunkRows>> = store.chunks.iter().map(|_| None).collect();
        let threads = threads.clamp(1, store.chunks.len().max(1));
        let panicked = |_| Error::Settings("a thread that looked up rows panicked".to_owned());
        thread::scope(|scope| -> Result<()> {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut found = work();
            for other in others {
                found.extend(other.join().map_err(panicked)?);
            }
            found.into_iter().for_each(|(at, rows)| chunks[at] = Some(rows));
            Ok(())
        })?;
        let slots = placed.iter().map(|(at, _)| *at).collect();
        Ok(RowNumbers { of: self.contents(), slots, chunks, batches })
    }

    /// Which samples of each chunk these batches have.
    fn needed(&self, batches: Range<u64>) -> Vec<Vec<bool>> {
        let Held { store, order, swapped } = &self.held;
        let mut needed: Vec<Vec<bool>> =
            store.chunks.iter().map(|chunk| vec![false; chunk.rows]).collect();
        let size = self.settings().batch_size;
        let at = |batch: u64| usize::try_from(batch).unwrap_or(usize::MAX).saturating_mul(size);
        let range = at(batches.start).min(order.len())..at(batches.end).min(order.len());
        let own = order[range.clone()].iter();
        let others = swapped.iter().flat_map(|swapped| &swapped.order[range.clone()]);
        for &sample in own.chain(others) {
            let (chunk, row) = Store::place(sample);
            needed[chunk][row] = true;
        }
        needed
    }
}

/// The rows of a chunk's ids; of the samples that are needed.
fn resolve(chunk: &Chunk, slots: &[(usize, &KeySlot<'_>)], needed: Option<&[bool]>) -> ChunkRows {
    let widths: Option<Vec<usize>> = slots.iter().map(|(at, _)| chunk.width(*at)).collect();
    let of_sample = |row: usize| slots.iter().map(|(at, _)| chunk.count(*at, row)).sum::<usize>();
    let (starts, stride, total) = match &widths {
        Some(widths) => {
            let stride = widths.iter().sum::<usize>();
            (None, stride, stride * chunk.rows)
        }
        None => {
            let mut end = 0;
            let starts = (0..chunk.rows).map(|row| {
                let start = end;
                end += of_sample(row);
                start
            });
            let starts: Box<[usize]> = starts.collect();
            (Some(starts), end.div_ceil(chunk.rows.max(1)), end)
        }
    };
    let mut rows = vec![0; total].into_boxed_slice();
    pages::ask_for_large(&mut rows);
    rows.fill(NONE);
    let mut found = ChunkRows { rows, starts, stride };
    let mut together = Together::default();
    // The samples of a block that are needed, and where the row numbers of the current slot go.
    let mut block: Vec<(usize, usize)> = Vec::with_capacity(TOGETHER);
    for first in (0..chunk.rows).step_by(TOGETHER) {
        let rows = first..chunk.rows.min(first + TOGETHER);
        let rows = rows.filter(|row| needed.is_none_or(|needed| needed[*row]));
        block.clear();
        block.extend(rows.map(|row| (row, found.start(row))));
        for (at, slot) in slots {
            together.look_up(chunk, *at, slot, &mut block, &mut found.rows);
        }
    }
    found
}

/// Keys that are looked up together, and their rows.
#[derive(Default)]
struct Together {
    keys: Vec<u64>,
    rows: Vec<u32>,
}

impl Together {
    /// Writes the rows of a slot's ids where they belong, and moves on to where those of the next slot do.
    fn look_up(
        &mut self,
        chunk: &Chunk,
        at: usize,
        slot: &KeySlot<'_>,
        block: &mut [(usize, usize)],
        all: &mut [u32],
    ) {
        self.keys.clear();
        match chunk.layout().field(at) {
            Some(field) if field.width == 1 => {
                let key = |row: usize| chunk.record(row).id(field.offset, field.mask());
                self.keys.extend(block.iter().map(|(row, _)| key(*row)));
            }
            _ => block.iter().for_each(|(row, _)| self.keys.extend(chunk.ids(at, *row))),
        }
        self.rows.resize(self.keys.len(), NONE);
        slot.index.find(&self.keys, slot.padding, NONE, &mut self.rows);
        let mut rows = self.rows.iter();
        for (row, to) in block {
            let count = chunk.count(at, *row);
            for (to, row) in all[*to..*to + count].iter_mut().zip(rows.by_ref()) {
                *to = *row;
            }
            *to += count;
        }
    }
}
