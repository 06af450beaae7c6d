//! Samples as the tensors of one step, in ordinary memory or where a card takes them from.

use std::sync::Arc;

use bireme_engine::DType;
use bireme_engine::device::{FeedBlock, FeedMemory};
use bireme_engine::tensor::{Dims, Tensor};

use crate::{Column, Result, Samples, Slot, Values};

/// The tensors of one step, in the order of the slots; used again for the next batch, so that
/// filling it allocates nothing once it has grown.
#[derive(Debug)]
pub struct Batch {
    slots: Vec<Slot>,
    tensors: Vec<Tensor>,
    rows: usize,
    /// The memory that its tensors lie in when it is filled for a card, and whose that is.
    block: FeedBlock,
    memory: Option<Arc<FeedMemory>>,
}

impl Batch {
    /// An empty batch of these slots.
    pub fn of(slots: &[Slot]) -> Batch {
        let tensors = slots.iter().map(|slot| Tensor::empty(slot.dtype())).collect();
        let block = FeedBlock::default();
        Batch { slots: slots.to_vec(), tensors, rows: 0, block, memory: None }
    }

    /// Has it filled in a card's memory for feeds, from the next time on.
    pub fn assemble_in(&mut self, memory: &Arc<FeedMemory>) {
        self.memory = Some(Arc::clone(memory));
    }

    /// The card's memory that it is filled in.
    pub(crate) fn memory(&self) -> Option<&Arc<FeedMemory>> {
        self.memory.as_ref()
    }

    /// Whether its tensors lie in page-locked memory, from where a card copies them by itself.
    pub fn is_page_locked(&self) -> bool {
        self.block.is_page_locked()
    }

    /// How many samples it holds.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The tensors, as a step takes them.
    pub fn tensors(&self) -> Vec<&Tensor> {
        self.tensors.iter().collect()
    }

    /// The text of each line in a slot such as [`crate::INS_ID`]; empty where none was kept.
    pub fn texts(&self, slot: &str) -> Vec<String> {
        let at = self.slots.iter().position(|known| known.name == slot);
        let Some(tensor) = at.map(|at| &self.tensors[at]) else { return Vec::new() };
        let bytes = tensor.as_slice::<i64>().unwrap_or_default();
        let text = |ends: &[usize]| {
            let bytes: Vec<u8> = bytes[ends[0]..ends[1]].iter().map(|&byte| byte as u8).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        tensor.lod().first().map_or(Vec::new(), |offsets| offsets.windows(2).map(text).collect())
    }

    /// Bytes of its tensors.
    pub fn bytes(&self) -> usize {
        let lod = |tensor: &Tensor| tensor.lod().iter().map(|level| level.len() * 8).sum::<usize>();
        self.tensors.iter().map(|tensor| tensor.as_bytes().len() + lod(tensor)).sum()
    }

    /// The slots, in the order of the tensors.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Replaces what it holds by so many lines: `shape` says what the tensor of each slot is, and `write` writes them.
    pub(crate) fn refill(
        &mut self,
        lines: usize,
        mut shape: impl FnMut(usize, &Slot) -> (DType, Dims),
        write: impl FnOnce(&[Slot], &mut [Tensor]) -> Result<()>,
    ) -> Result<()> {
        let slots = self.slots.iter().enumerate();
        let shapes: Vec<(DType, Dims)> = slots.map(|(at, slot)| shape(at, slot)).collect();
        match &self.memory {
            Some(memory) => self.block.lay_out(memory, &mut self.tensors, &shapes),
            None => {
                let both = self.tensors.iter_mut().zip(&shapes);
                both.for_each(|(tensor, (dtype, dims))| tensor.resize(*dtype, *dims));
            }
        }
        write(&self.slots, &mut self.tensors)?;
        self.rows = self.samples_of(lines);
        Ok(())
    }

    /// How many samples so many lines make.
    fn samples_of(&self, lines: usize) -> usize {
        match (self.slots.first(), self.tensors.first()) {
            (Some(slot), Some(tensor)) if slot.batched => {
                tensor.dims().first().copied().unwrap_or(0)
            }
            _ => lines,
        }
    }

    /// Replaces what it holds by the samples of these rows, which have the same slots.
    pub fn fill(&mut self, samples: &Samples, rows: impl ExactSizeIterator<Item = usize> + Clone) {
        let columns = samples.columns();
        let count = |column: &Column| match column.width() {
            Some(width) => width * rows.len(),
            None => rows.clone().map(|row| column.range(row).len()).sum(),
        };
        let shape = |at: usize, slot: &Slot| {
            let dims = slot.dims(rows.len(), count(&columns[at]));
            (slot.dtype(), Dims::new(&dims))
        };
        let write = |slots: &[Slot], tensors: &mut [Tensor]| {
            for ((slot, tensor), column) in slots.iter().zip(tensors).zip(columns) {
                write(tensor, slot, column, rows.clone());
            }
            Ok(())
        };
        self.refill(rows.len(), shape, write).expect("columns that are there can be written");
    }
}

fn write(
    tensor: &mut Tensor,
    slot: &Slot,
    column: &Column,
    rows: impl ExactSizeIterator<Item = usize> + Clone,
) {
    match column.values() {
        Values::Ids(values) => copy(tensor.as_mut_bytes(), values, column, rows.clone()),
        Values::Floats(values) => copy(tensor.as_mut_bytes(), values, column, rows.clone()),
    }
    if slot.shape.is_none() {
        let (count, mut end) = (tensor.numel(), 0);
        let ends = rows.map(|row| {
            end += column.range(row).len();
            end
        });
        tensor.set_lod(&[slot.offsets(count, ends)]);
    }
}

/// Ids keep their bits: a tensor has them as `int64`.
fn copy<T: bytemuck::NoUninit>(
    bytes: &mut [u8],
    values: &[T],
    column: &Column,
    rows: impl Iterator<Item = usize>,
) {
    let mut at = 0;
    for row in rows {
        let from: &[u8] = bytemuck::cast_slice(&values[column.range(row)]);
        bytes[at..at + from.len()].copy_from_slice(from);
        at += from.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_tensors_with_offsets_where_lengths_differ() {
        let slots = [Slot::ids("a"), Slot::floats("b", 2)];
        let mut samples = Samples::of(&slots);
        for (ids, floats) in [(&[1_u64][..], [0.5_f32, 1.0]), (&[2, u64::MAX], [2.0, 3.0])] {
            let [first, second] = samples.columns_mut() else { panic!("two columns") };
            let (Values::Ids(to), Values::Floats(numbers)) =
                (first.values_mut(), second.values_mut())
            else {
                panic!("ids and floats")
            };
            to.extend_from_slice(ids);
            numbers.extend_from_slice(&floats);
            samples.end_row();
        }
        let mut batch = Batch::of(&slots);
        batch.fill(&samples, [1, 0].into_iter());
        let tensors = batch.tensors();
        assert_eq!(tensors[0].as_slice::<i64>().unwrap(), [2, -1, 1]);
        assert_eq!(tensors[0].lod().to_vec(), [vec![0, 2, 3]]);
        assert_eq!(tensors[1].as_slice::<f32>().unwrap(), [2.0, 3.0, 0.5, 1.0]);
        assert_eq!(tensors[1].dims().to_vec(), [2, 2]);
    }
}
