//! Row numbers of the ids of samples in memory, for a table whose rows of a pass lie on the trainer.
//!
//! They are beside the ids, four bytes each, those of a sample one behind the other: a batch of
//! shuffled samples reads one or two cache lines of each, and not one for every slot. They belong to
//! the samples, whatever their order is, and are of no use for others.

use std::ops::Range;

use bireme_engine::prefetch::prefetch;
use bireme_engine::tensor::Tensor;

use super::gather::BLOCK;
use super::store::Store;
use super::{Contents, Held, MemoryDataset};
use crate::{Error, Result, Slot};

/// The number of an id that has no row.
pub(super) const NONE: u32 = u32::MAX;
/// How many samples ahead of the current one row numbers are requested from memory.
const AHEAD: usize = 8;

/// The row numbers of some samples.
pub struct RowNumbers {
    /// Whose they are.
    pub(super) of: Contents,
    /// Which slots have them, in order.
    pub(super) slots: Vec<usize>,
    pub(super) chunks: Vec<Option<ChunkRows>>,
    /// The batches whose samples have them, if these are not all.
    pub(super) batches: Option<Range<u64>>,
}

/// The row numbers of a chunk, sample by sample.
pub(super) struct ChunkRows {
    pub(super) rows: Box<[u32]>,
    /// Where those of each sample begin; none where each has as many.
    pub(super) starts: Option<Box<[usize]>>,
    pub(super) stride: usize,
}

impl ChunkRows {
    #[inline]
    pub(super) fn start(&self, row: usize) -> usize {
        self.starts.as_ref().map_or(row * self.stride, |starts| starts[row])
    }
}

impl RowNumbers {
    /// Whether they are those of what a dataset holds, in these batches.
    pub fn are_of(&self, dataset: &MemoryDataset, batches: &Range<u64>) -> bool {
        match &self.batches {
            None => self.of.has_samples_of(&dataset.contents()),
            Some(own) => own == batches && self.of == dataset.contents(),
        }
    }

    /// Whether somebody still holds the samples that they belong to.
    pub fn are_used(&self) -> bool {
        self.of.is_held()
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        let bytes = |chunk: &ChunkRows| {
            size_of_val::<[u32]>(&chunk.rows)
                + chunk.starts.as_ref().map_or(0, |starts| size_of_val::<[usize]>(starts))
        };
        self.chunks.iter().flatten().map(bytes).sum()
    }

    /// The place of a slot among those with row numbers.
    pub(super) fn place(&self, slot: usize) -> Option<usize> {
        self.slots.binary_search(&slot).ok()
    }

    /// Writes the row numbers of some samples into the tensors of their slots, which have room for them.
    pub(super) fn gather(
        &self,
        held: &Held,
        range: Range<usize>,
        slots: &[Slot],
        tensors: &mut [Tensor],
    ) -> Result<()> {
        let mut outs: Vec<Out<'_>> = Vec::new();
        for (at, tensor) in tensors.iter_mut().enumerate() {
            if self.place(at).is_some() {
                let ends = Vec::with_capacity(range.len());
                outs.push(Out { slot: at, to: tensor.as_mut_slice::<i32>()?, at: 0, ends });
            }
        }
        let widths: Option<Vec<usize>> = outs.iter().map(|out| slots[out.slot].width()).collect();
        let is_known = match (&held.swapped, widths) {
            (None, Some(widths)) => self.gather_even(held, range.clone(), &widths, &mut outs),
            (None, None) => self.gather_samples(held, range.clone(), slots, &mut outs),
            (Some(swapped), _) => {
                let orders: Vec<&[u32]> = outs
                    .iter()
                    .map(|out| match swapped.slots[out.slot] {
                        true => &swapped.order[range.clone()],
                        false => &held.order[range.clone()],
                    })
                    .collect();
                self.gather_slots(held, &orders, &mut outs)
            }
        };
        if !is_known {
            return Err(unknown(held, range, slots, &outs));
        }
        let ends: Vec<(usize, Vec<usize>)> =
            outs.into_iter().map(|out| (out.slot, out.ends)).collect();
        for (at, ends) in ends {
            if slots[at].shape.is_none() {
                let count = tensors[at].numel();
                tensors[at].set_lod(&[slots[at].offsets(count, ends.into_iter())]);
            }
        }
        Ok(())
    }

    /// Some samples at a time, slot by slot, where every sample has as many values; whether all have rows.
    fn gather_even<'a>(
        &'a self,
        held: &Held,
        range: Range<usize>,
        widths: &[usize],
        outs: &mut [Out<'_>],
    ) -> bool {
        let (mut unknown, stride) = (0, widths.iter().sum::<usize>());
        let place = |sample: u32| {
            let (chunk, row) = Store::place(sample);
            let rows = self.chunks[chunk].as_ref()?;
            rows.rows.get(rows.start(row)..)?.get(..stride)
        };
        let mut blocks = held.order[range].chunks(BLOCK);
        let mut load = |to: &mut Vec<&'a [u32]>| {
            to.clear();
            let samples = blocks.next().unwrap_or_default();
            to.extend(samples.iter().filter_map(|sample| place(*sample)));
            to.len() == samples.len()
        };
        let (mut block, mut next) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
        let mut have_rows = load(&mut next);
        next.iter().for_each(|rows| prefetch_all(rows));
        while have_rows && !next.is_empty() {
            std::mem::swap(&mut block, &mut next);
            have_rows = load(&mut next);
            // As `gather` does.
            let (mut asked, mut column) = (next.iter(), 0);
            let at_once = next.len().div_ceil(outs.len().max(1));
            for (out, &width) in outs.iter_mut().zip(widths) {
                asked.by_ref().take(at_once).for_each(|rows| prefetch_all(rows));
                unknown |= out.take_block(&block, column, width);
                column += width;
            }
        }
        have_rows && unknown == 0
    }

    /// All slots of a sample, then those of the next; whether all have rows.
    fn gather_samples(
        &self,
        held: &Held,
        range: Range<usize>,
        slots: &[Slot],
        outs: &mut [Out<'_>],
    ) -> bool {
        let (order, mut unknown) = (&held.order, 0);
        let place = |sample: u32| {
            let (chunk, row) = Store::place(sample);
            self.chunks[chunk].as_ref().map(|rows| (rows, rows.start(row)))
        };
        for at in range {
            if let Some((rows, start)) = order.get(at + AHEAD).and_then(|sample| place(*sample)) {
                prefetch(&rows.rows, start, rows.stride.max(1));
            }
            let (chunk, row) = held.store.find(order[at]);
            let Some((rows, mut from)) = place(order[at]) else { return false };
            for out in &mut *outs {
                let count = chunk.count(out.slot, row);
                unknown |=
                    out.take(&rows.rows[from..from + count], slots[out.slot].shape.is_none());
                from += count;
            }
        }
        unknown == 0
    }

    /// All samples of a slot, whose order is its own, then those of the next.
    fn gather_slots(&self, held: &Held, orders: &[&[u32]], outs: &mut [Out<'_>]) -> bool {
        let mut unknown = 0;
        for (out, order) in outs.iter_mut().zip(orders) {
            for &sample in *order {
                let (number, row) = Store::place(sample);
                let chunk = &held.store.chunks[number];
                let Some(rows) = &self.chunks[number] else { return false };
                let count = |slot: usize| chunk.count(slot, row);
                let before = self.slots.iter().take_while(|slot| **slot < out.slot);
                let from = rows.start(row) + before.map(|slot| count(*slot)).sum::<usize>();
                unknown |= out.take(&rows.rows[from..from + count(out.slot)], true);
            }
        }
        unknown == 0
    }
}

/// The tensor of a slot that is being written.
struct Out<'a> {
    slot: usize,
    to: &'a mut [i32],
    at: usize,
    /// Where the values of each sample end, for a slot that has any number of them.
    ends: Vec<usize>,
}

impl Out<'_> {
    /// Appends what some samples have in these columns; not 0 if one has no row.
    #[inline]
    fn take_block(&mut self, block: &[&[u32]], column: usize, width: usize) -> u32 {
        let mut unknown = 0;
        let to = &mut self.to[self.at..self.at + block.len() * width];
        self.at += to.len();
        if width == 1 {
            for (to, sample) in to.iter_mut().zip(block) {
                *to = sample[column] as i32;
                unknown |= u32::from(sample[column] == NONE);
            }
        } else {
            for (to, sample) in to.chunks_exact_mut(width.max(1)).zip(block) {
                for (to, row) in to.iter_mut().zip(&sample[column..column + width]) {
                    *to = *row as i32;
                    unknown |= u32::from(*row == NONE);
                }
            }
        }
        unknown
    }

    /// Appends the values of a sample; not 0 if one has no row.
    #[inline]
    fn take(&mut self, rows: &[u32], is_ragged: bool) -> u32 {
        let mut unknown = 0;
        for (to, row) in self.to[self.at..self.at + rows.len()].iter_mut().zip(rows) {
            *to = *row as i32;
            unknown |= u32::from(*row == NONE);
        }
        self.at += rows.len();
        if is_ragged {
            self.ends.push(self.at);
        }
        unknown
    }
}

/// Asks for all row numbers of a sample.
#[inline]
fn prefetch_all(rows: &[u32]) {
    let lines = (0..rows.len()).step_by(16).chain(rows.len().checked_sub(1));
    lines.for_each(|at| prefetch(rows, at, 1));
}

/// Names the first key of a batch that has no row.
fn unknown(held: &Held, range: Range<usize>, slots: &[Slot], outs: &[Out<'_>]) -> Error {
    for out in outs {
        let order = match &held.swapped {
            Some(swapped) if swapped.slots[out.slot] => &swapped.order,
            _ => held.order.as_ref(),
        };
        let samples = order[range.clone()].iter().map(|sample| held.store.find(*sample));
        let keys = samples.flat_map(|(chunk, row)| chunk.ids(out.slot, row));
        if let Some((key, _)) = keys.zip(&*out.to).find(|(_, row)| **row == NONE as i32) {
            return Error::Settings(format!(
                "key {key} of slot `{}` is not among the keys of this pass: begin a pass with the data \
                 that it trains",
                slots[out.slot].name
            ));
        }
    }
    Error::Settings("these samples have no row numbers: begin a pass with them".to_owned())
}
