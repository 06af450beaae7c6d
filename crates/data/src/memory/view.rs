//! The batches of one training thread, of samples in memory.
//!
//! A batch for the host is assembled by whoever asks for it, on the memory that it reads anyway; one
//! for a card by threads that work ahead ([`Assembly`]), for a card takes a step in less time than a
//! thread needs to gather its samples.

use std::sync::Arc;

use bireme_engine::DType;
use bireme_engine::tensor::{Dims, Tensor};

use super::assembly::Assembly;
use super::rows::RowNumbers;
use super::{Held, gather};
use crate::{Batch, Batches, Result, Slot};

/// Samples, and how they are cut into batches.
#[derive(Clone)]
pub(super) struct Cut {
    pub(super) held: Held,
    pub(super) batch_size: usize,
    pub(super) drop_last: bool,
    /// No batch from this one on.
    pub(super) end: u64,
    /// The row numbers that take the place of ids, if there are some.
    pub(super) rows: Option<Arc<RowNumbers>>,
}

impl Cut {
    /// How many batches there are for all threads.
    pub(super) fn batches(&self) -> u64 {
        let rows = self.held.order.len();
        let whole = rows / self.batch_size;
        let short = !rows.is_multiple_of(self.batch_size) && !self.drop_last;
        self.end.min((whole + usize::from(short)) as u64)
    }

    /// Assembles a batch, by its number.
    pub(super) fn assemble(&self, number: u64, batch: &mut Batch) -> Result<()> {
        let first = number as usize * self.batch_size;
        let end = self.held.order.len().min(first + self.batch_size);
        let Held { store, order, swapped } = &self.held;
        let is_swapped = |at: usize| swapped.as_ref().is_some_and(|swapped| swapped.slots[at]);
        let own = &order[first..end];
        let others = swapped.as_ref().map_or(own, |swapped| &swapped.order[first..end]);
        let has_rows = |at: usize| self.rows.as_ref().is_some_and(|rows| rows.place(at).is_some());
        let shape = |at: usize, slot: &Slot| -> (DType, Dims) {
            let order = if is_swapped(at) { others } else { own };
            let dims = slot.dims(end - first, gather::count(store, order, at, slot));
            (if has_rows(at) { DType::I32 } else { slot.dtype() }, Dims::new(&dims))
        };
        batch.refill(end - first, shape, |slots, tensors: &mut [Tensor]| {
            let is_own = |at: usize| !has_rows(at) && !is_swapped(at);
            gather::gather(store, own, slots, tensors, is_own);
            if swapped.is_some() {
                let is_other = |at: usize| !has_rows(at) && is_swapped(at);
                gather::gather(store, others, slots, tensors, is_other);
            }
            match &self.rows {
                Some(rows) => rows.gather(&self.held, first..end, slots, tensors),
                None => Ok(()),
            }
        })
    }
}

/// Some of the batches: every `step`th.
pub(super) struct View {
    cut: Cut,
    /// The number of the next batch.
    next: u64,
    step: u64,
    /// Threads that assemble batches for a card, from the next one on.
    assembly: Option<Assembly>,
}

impl View {
    pub(super) fn new(cut: Cut, first: u64, step: u64) -> View {
        View { cut, next: first, step, assembly: None }
    }

    /// How many batches are left.
    fn left(&self) -> u64 {
        self.cut.batches().saturating_sub(self.next).div_ceil(self.step)
    }
}

impl Batches for View {
    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        let left = self.left();
        if left == 0 {
            self.assembly = None;
            return Ok(false);
        }
        match (&mut self.assembly, batch.memory()) {
            (Some(assembly), _) => assembly.take(batch)?,
            (none, Some(memory)) => {
                let assembly =
                    Assembly::start(&self.cut, self.next, self.step, left, batch.slots(), memory)?;
                none.insert(assembly).take(batch)?;
            }
            (None, None) => self.cut.assemble(self.next, batch)?,
        }
        self.next += self.step;
        Ok(true)
    }

    fn skip(&mut self, batches: u64) -> Result<u64> {
        let skipped = batches.min(self.left());
        if skipped > 0 {
            // It has those that are left out.
            self.assembly = None;
        }
        self.next += skipped * self.step;
        Ok(skipped)
    }
}
