//! Adds up the rows of a sparse gradient that name the same row of the table.
//!
//! Rows come out in the order of their first occurrence, each summed in the order of occurrence, so
//! that the result depends on nothing but the input. All memory is kept between steps.

use std::any::Any;

use crate::number::Real;
use crate::tensor::SelectedRows;
use crate::{Error, Result};

/// Merges the rows of sparse gradients, one after the other.
#[derive(Debug, Default)]
pub struct RowMerger<T> {
    /// Open addressing: the upper half of an entry is the stamp of the merge that wrote it, the
    /// lower half a position in `rows`. Entries with an old stamp are free, so that nothing needs
    /// to be cleared between merges.
    index: Vec<u64>,
    stamp: u32,
    /// The merged rows: their numbers, and their values side by side.
    rows: Vec<i64>,
    values: Vec<T>,
    /// Where each row of the input went.
    positions: Vec<u32>,
    /// Positions in the order of rising row numbers.
    order: Vec<u32>,
    /// The gradient as a dense tensor.
    dense: Vec<T>,
}

/// A merger for each float type: a kernel learns its type when it runs.
#[derive(Debug, Default)]
pub struct RowMergers {
    /// Single precision.
    pub f32: RowMerger<f32>,
    /// Double precision.
    pub f64: RowMerger<f64>,
}

impl RowMergers {
    /// The merger of one type.
    pub fn of<T: Real>(&mut self) -> &mut RowMerger<T> {
        let all: [&mut dyn Any; 2] = [&mut self.f32, &mut self.f64];
        let found = all.into_iter().find_map(|merger| merger.downcast_mut());
        found.expect("`Real` is `f32` or `f64`")
    }
}

/// Distinct rows of a gradient.
#[derive(Clone, Copy, Debug)]
pub struct Merged<'a, T> {
    /// The rows of the table.
    pub rows: &'a [i64],
    /// One gradient row for each.
    pub values: &'a [T],
    /// Elements in a row.
    pub width: usize,
}

impl<'a, T> Merged<'a, T> {
    /// Each row number with its gradient.
    #[inline(always)]
    pub fn iter(&self) -> impl Iterator<Item = (usize, &'a [T])> + use<'a, T> {
        // A width of zero has no rows worth iterating; `chunks_exact` must not see it.
        let values = self.values.chunks_exact(self.width.max(1));
        self.rows.iter().map(|row| *row as usize).zip(values)
    }

    /// The row at `position` with its gradient.
    #[inline(always)]
    pub fn row(&self, position: usize) -> (usize, &'a [T]) {
        let start = position * self.width;
        (self.rows[position] as usize, &self.values[start..start + self.width])
    }
}

impl<T: Real> RowMerger<T> {
    /// Merges `grad`, whose rows must lie in a table of `height` rows.
    ///
    /// # Errors
    /// When one does not, or the gradient's parts do not fit together.
    pub fn merge(&mut self, grad: &SelectedRows, height: usize) -> Result<Merged<'_, T>> {
        let values = grad.value.as_slice::<T>()?;
        let (rows, width) = (&grad.rows, grad.width());
        check_values(grad, values.len())?;
        // As unsigned numbers, negative rows are too large as well.
        check_outside(rows.iter().find(|row| **row as u64 >= height as u64), height)?;
        self.merge_some(rows.iter().copied(), 0..rows.len(), values, width);
        Ok(self.merged(width))
    }

    /// Merges the rows of `values` at `positions`, which are those of `numbers`.
    pub(super) fn merge_some(
        &mut self,
        numbers: impl ExactSizeIterator<Item = i64>,
        positions: impl Iterator<Item = usize>,
        values: &[T],
        width: usize,
    ) {
        self.number(numbers);
        self.sum(positions, values, width);
    }

    /// What was merged last.
    pub(super) fn merged(&self, width: usize) -> Merged<'_, T> {
        Merged { rows: &self.rows, values: &self.values, width }
    }

    /// Finds the order in which the merged rows rise.
    pub(super) fn sort(&mut self) {
        let Self { rows, order, .. } = self;
        order.clear();
        order.extend(0..rows.len() as u32);
        order.sort_unstable_by_key(|position| rows[*position as usize]);
    }

    /// The order that was found last.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// As [`RowMerger::merge`], with the order in which the merged rows rise.
    ///
    /// # Errors
    /// As [`RowMerger::merge`].
    pub fn merge_sorted(
        &mut self,
        grad: &SelectedRows,
        height: usize,
    ) -> Result<(Merged<'_, T>, &[u32])> {
        self.merge(grad, height)?;
        self.sort();
        Ok((self.merged(grad.width()), &self.order))
    }

    /// The gradient as a dense tensor.
    ///
    /// # Errors
    /// As [`RowMerger::merge`].
    pub fn scatter(&mut self, grad: &SelectedRows) -> Result<&[T]> {
        self.merge(grad, grad.height)?;
        let width = grad.width();
        self.dense.clear();
        self.dense.resize(grad.height * width, T::ZERO);
        let merged = Merged { rows: &self.rows, values: &self.values, width };
        for (row, values) in merged.iter() {
            self.dense[row * width..(row + 1) * width].copy_from_slice(values);
        }
        Ok(&self.dense)
    }

    /// Fills `rows` with the distinct rows, and `positions` with the place of each input row.
    fn number(&mut self, rows: impl ExactSizeIterator<Item = i64>) {
        self.start(rows.len());
        let Self { index, stamp, rows: distinct, positions, .. } = self;
        let (mask, shift) = (index.len() - 1, 64 - index.len().trailing_zeros());
        let stamp = u64::from(*stamp) << 32;
        let mut count = 0;
        for (row, position) in rows.zip(positions) {
            // Fibonacci hashing: the upper bits of the product depend on all bits of the row.
            let mut at = ((row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize;
            // The row is put down as the next new one, so that a free entry looks like a match:
            // whether a row is new is a coin toss, and must not be a branch.
            distinct[count] = row;
            loop {
                let entry = &mut index[at & mask];
                let is_new = *entry >> 32 != stamp >> 32;
                let found = if is_new { count as u32 } else { *entry as u32 };
                if distinct[found as usize] == row {
                    *entry = stamp | u64::from(found);
                    *position = found;
                    count += usize::from(is_new);
                    break;
                }
                at += 1;
            }
        }
        distinct.truncate(count);
    }

    /// Makes room for `count` rows: the index stays at most half full.
    fn start(&mut self, count: usize) {
        let wanted = (count * 2).next_power_of_two().max(16);
        if self.index.len() < wanted || self.stamp == u32::MAX {
            self.index.clear();
            self.index.resize(wanted, 0);
            self.stamp = 0;
        }
        self.stamp += 1;
        self.rows.resize(count, 0);
        self.positions.resize(count, 0);
    }

    /// Adds each input row, which stands at the next of `from`, to its place.
    fn sum(&mut self, from: impl Iterator<Item = usize>, values: &[T], width: usize) {
        self.values.clear();
        self.values.resize(self.rows.len() * width, T::ZERO);
        if width == 0 {
            return;
        }
        let (sums, positions) = (&mut self.values[..], &self.positions[..]);
        crate::simd::vectorized(
            #[inline(always)]
            || {
                for (position, from) in positions.iter().zip(from) {
                    let (start, from) = (*position as usize * width, from * width);
                    add(&mut sums[start..start + width], &values[from..from + width]);
                }
            },
        );
    }
}

/// A gradient must have the values of its rows.
pub(super) fn check_values(grad: &SelectedRows, values: usize) -> Result<()> {
    let (rows, width) = (grad.rows.len(), grad.width());
    if values == rows * width {
        return Ok(());
    }
    Err(Error::kernel(format!("a gradient of {rows} rows and {width} columns has {values} values")))
}

/// No row of a gradient may lie outside of its table; `row` is the first one that does.
pub(super) fn check_outside(row: Option<&i64>, height: usize) -> Result<()> {
    match row {
        None => Ok(()),
        Some(row) => Err(Error::kernel(format!("row {row} lies outside a table of {height} rows"))),
    }
}

#[inline(always)]
fn add<T: Real>(sums: &mut [T], values: &[T]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += *value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    fn rows(rows: &[i64], values: &[f32]) -> SelectedRows {
        let dims = [rows.len(), values.len() / rows.len().max(1)];
        let value = Tensor::from_slice(dims, values).unwrap();
        SelectedRows { rows: rows.to_vec(), height: 100, value }
    }

    #[test]
    fn duplicates_add_up_in_order_of_first_occurrence() {
        let mut merger = RowMerger::<f32>::default();
        // Twice, with other rows between: entries of an earlier merge must not be found.
        for _ in 0..2 {
            let grad =
                rows(&[7, 3, 7, 99, 3, 7], &[1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12.]);
            let merged = merger.merge(&grad, 100).unwrap();
            assert_eq!(merged.rows, [7, 3, 99]);
            assert_eq!(merged.values, [17., 20., 12., 14., 7., 8.]);
            let (merged, order) = merger.merge_sorted(&rows(&[3, 0], &[1., 2.]), 100).unwrap();
            assert_eq!((merged.values, order), (&[1., 2.][..], &[1, 0][..]));
        }
        assert!(merger.merge(&rows(&[], &[]), 100).unwrap().rows.is_empty());
    }

    #[test]
    fn rows_outside_the_table_are_errors() {
        let mut merger = RowMerger::<f32>::default();
        for row in [100, -1] {
            let error = merger.merge(&rows(&[1, row], &[0.0, 0.0]), 100).unwrap_err();
            let expected = format!("row {row} lies outside a table of 100 rows");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn the_stamp_may_wrap() {
        let mut merger = RowMerger { stamp: u32::MAX - 1, ..RowMerger::default() };
        merger.index.resize(16, 0);
        for row in 0..4 {
            let merged = merger.merge(&rows(&[row, row], &[1.0, 2.0]), 100).unwrap();
            assert_eq!((merged.rows, merged.values), (&[row][..], &[3.0f32][..]));
        }
    }
}
