//! Ragged sequences step by step: rows in the order of time, and in each step those of the longest
//! sequences first. So the rows of a step continue the first rows of the step before.

use std::ops::Range;

use crate::ops::prelude::*;
use crate::ops::sequence::only_level;

/// Where the rows of a ragged batch go.
#[derive(Default)]
pub(super) struct Packing {
    /// The sequences, the longest first.
    order: Vec<usize>,
    /// The row of the batch at each place.
    rows: Vec<usize>,
    /// Where the rows of each step begin, and the end.
    starts: Vec<usize>,
}

impl Packing {
    /// Packs the sequences of `tensor`, which is in slot `slot`; with `reverse` from their ends.
    ///
    /// # Errors
    /// When it has no sequences.
    pub(super) fn read(&mut self, tensor: &Tensor, slot: &str, reverse: bool) -> Result<()> {
        let offsets = only_level(tensor, slot)?;
        let length = |sequence: usize| offsets[sequence + 1] - offsets[sequence];
        self.order.clear();
        self.order.extend(0..offsets.len() - 1);
        self.order.sort_by_key(|sequence| std::cmp::Reverse(length(*sequence)));
        self.rows.clear();
        self.starts.clear();
        self.starts.push(0);
        let steps = self.order.first().map_or(0, |longest| length(*longest));
        for step in 0..steps {
            let active = self.order.iter().take_while(|sequence| length(**sequence) > step);
            self.rows.extend(active.map(|sequence| match reverse {
                false => offsets[*sequence] + step,
                true => offsets[sequence + 1] - 1 - step,
            }));
            self.starts.push(self.rows.len());
        }
        Ok(())
    }

    /// How many sequences there are.
    pub(super) fn sequences(&self) -> usize {
        self.order.len()
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The places of each step.
    pub(super) fn steps(&self) -> impl DoubleEndedIterator<Item = Range<usize>> {
        self.starts.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// The places that those of `step` continue; none for the first step.
    pub(super) fn before(&self, step: &Range<usize>) -> Option<Range<usize>> {
        let at = self.starts.binary_search(&step.start).ok()?.checked_sub(1)?;
        Some(self.starts[at]..self.starts[at] + step.len())
    }

    /// Rows of `width` from the order of the batch into that of steps.
    pub(super) fn pack<T: Copy>(&self, width: usize, from: &[T], to: &mut [T]) {
        for (to, row) in to.chunks_exact_mut(width.max(1)).zip(&self.rows) {
            to.copy_from_slice(&from[row * width..][..width]);
        }
    }

    /// The reverse of [`Packing::pack`].
    pub(super) fn unpack<T: Copy>(&self, width: usize, from: &[T], to: &mut [T]) {
        for (from, row) in from.chunks_exact(width.max(1)).zip(&self.rows) {
            to[row * width..][..width].copy_from_slice(from);
        }
    }

    /// The states that each place continues: `first`, a row for each sequence or zeros, and those of
    /// the step before in `states`, which are in the order of steps.
    pub(super) fn last_states<T: Real>(
        &self,
        width: usize,
        first: Option<&[T]>,
        states: &[T],
        to: &mut [T],
    ) {
        for step in self.steps() {
            let to = &mut to[step.start * width..step.end * width];
            match self.before(&step) {
                Some(before) => {
                    to.copy_from_slice(&states[before.start * width..before.end * width]);
                }
                None => self.order_first(width, first, to),
            }
        }
    }

    /// The first states in the order of steps.
    pub(super) fn order_first<T: Real>(&self, width: usize, first: Option<&[T]>, to: &mut [T]) {
        let Some(first) = first else { return to.fill(T::ZERO) };
        for (to, sequence) in to.chunks_exact_mut(width.max(1)).zip(&self.order) {
            to.copy_from_slice(&first[sequence * width..][..width]);
        }
    }

    /// The gradients of the first states, in the order of sequences; empty ones have none.
    pub(super) fn first_gradients<T: Real>(&self, width: usize, from: &[T], to: &mut [T]) {
        to.fill(T::ZERO);
        for (from, sequence) in from.chunks_exact(width.max(1)).zip(&self.order) {
            to[sequence * width..][..width].copy_from_slice(from);
        }
    }
}

/// Memory that is used again in each step.
pub(super) struct Buffers(Tensor);

impl Buffers {
    /// Nothing yet.
    pub(super) fn new() -> Buffers {
        Buffers(Tensor::empty(DType::F32))
    }

    /// Slices of these sizes; what they hold is unspecified.
    ///
    /// # Errors
    /// Never: the memory is of the type that is asked for.
    pub(super) fn slices<T: Real, const N: usize>(
        &mut self,
        sizes: [usize; N],
    ) -> Result<[&mut [T]; N]> {
        self.0.resize(T::DTYPE, [sizes.iter().sum()]);
        let mut rest = self.0.as_mut_slice::<T>()?;
        Ok(sizes.map(|size| {
            let (slice, left) = std::mem::take(&mut rest).split_at_mut(size);
            rest = left;
            slice
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_step_continue_the_first_of_the_step_before() {
        let tensor = Tensor::from_slice([6, 1], &[0f32; 6]).unwrap();
        let tensor = tensor.with_lod(&[vec![0, 2, 2, 5, 6]]).unwrap();
        let mut packing = Packing::default();
        packing.read(&tensor, "X", false).unwrap();
        assert_eq!(
            (&packing.order[..], &packing.rows[..]),
            (&[2, 0, 3, 1][..], &[2, 0, 5, 3, 1, 4][..])
        );
        assert_eq!(packing.steps().collect::<Vec<_>>(), [0..3, 3..5, 5..6]);
        assert_eq!((packing.before(&(0..3)), packing.before(&(3..5))), (None, Some(0..2)));
        let mut last = [0.0; 6];
        let first = [10.0, 20.0, 30.0, 40.0];
        packing.last_states(1, Some(&first), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &mut last);
        assert_eq!(last, [30.0, 10.0, 40.0, 1.0, 2.0, 4.0]);
        packing.read(&tensor, "X", true).unwrap();
        assert_eq!(packing.rows, [4, 1, 5, 3, 0, 2]);
    }
}
