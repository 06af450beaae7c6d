//! Sparse gradients cut into ranges of the table's rows, which threads merge and apply side by side: each has its part of
//! the table to itself. Within a range rows add up in the order of their occurrence, as in one piece, so that bits do not
//! depend on how many ranges there are, nor on where they begin.

#![expect(unsafe_code, reason = "tasks write parts that do not overlap")]

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::merge_rows::{Merged, RowMerger, check_outside, check_values};
use crate::Result;
use crate::crew::{self, Parts};
use crate::number::Real;
use crate::tensor::SelectedRows;

/// Rows of a gradient from which on cutting pays.
const LEAST: usize = 4096;

/// Ranges for each thread: rows that are named often make some ranges take longer.
const EACH: usize = 4;

/// Rows that are looked at, for each range, to find ranges with equally many.
const SAMPLES: usize = 16;

/// How a table is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Into ranges that the gradient names equally often: only rows that are named cost something.
    ByUse,
    /// Into equally many rows: all rows cost something.
    ByRows,
}

/// Cuts and merges sparse gradients; all memory is kept between steps.
#[derive(Debug, Default)]
pub(super) struct RowRanges<T> {
    /// The first row of each range, the first of which begins with row 0.
    starts: Vec<i64>,
    /// For each block of the gradient, how many of its rows belong to each range; then where they go.
    counts: Vec<usize>,
    /// The range of each row of the gradient.
    range_of: Vec<u16>,
    /// Positions in the gradient, range by range, rising within each.
    positions: Vec<u32>,
    mergers: Vec<Mutex<RowMerger<T>>>,
    sample: Vec<i64>,
}

/// [`RowRanges`] of each float type.
#[derive(Debug, Default)]
pub(super) struct RowRangesOfFloats {
    f32: RowRanges<f32>,
    f64: RowRanges<f64>,
}

impl RowRangesOfFloats {
    /// Those of one type.
    pub(super) fn of<T: Real>(&mut self) -> &mut RowRanges<T> {
        let all: [&mut dyn Any; 2] = [&mut self.f32, &mut self.f64];
        let found = all.into_iter().find_map(|ranges| ranges.downcast_mut());
        found.expect("`Real` is `f32` or `f64`")
    }
}

impl<T: Real> RowRanges<T> {
    /// Whether a gradient is large enough to be cut on this thread, with the others that may take part.
    pub(super) fn are_worth_it(grad: &SelectedRows) -> bool {
        crew::hands() > 1 && grad.rows.len() >= LEAST && grad.width() > 0
    }

    /// Cuts `grad`, whose rows must lie in a table of `height` rows, and calls `apply` for each range with its rows of the
    /// table, its merged rows, numbered from the first of the range, and the order in which these rise (only for
    /// [`Cut::ByRows`]).
    ///
    /// # Errors
    /// As [`RowMerger::merge`].
    pub(super) fn each(
        &mut self,
        grad: &SelectedRows,
        height: usize,
        cut: Cut,
        apply: impl Fn(Range<usize>, &Merged<'_, T>, &[u32]) + Sync,
    ) -> Result<()> {
        let (values, width) = (grad.value.as_slice::<T>()?, grad.width());
        check_values(grad, values.len())?;
        let ranges = (crew::hands() * EACH).min(height.max(1));
        self.find_starts(&grad.rows, height, ranges, cut);
        let cuts = self.sort_positions(&grad.rows, height)?;
        if self.mergers.len() < ranges {
            self.mergers.resize_with(ranges, Mutex::default);
        }
        let starts = &self.starts;
        let end = |range: usize| starts.get(range + 1).map_or(height, |start| *start as usize);
        crew::share_out(starts.len(), &|range| {
            let first = starts[range];
            let rows = first as usize..end(range);
            let positions = &self.positions[cuts[range]..cuts[range + 1]];
            if positions.is_empty() && cut == Cut::ByUse {
                return;
            }
            // One task has it; a panic of another has not left it half done.
            let mut merger = self.mergers[range].lock().unwrap_or_else(PoisonError::into_inner);
            let some = positions.iter().map(|position| *position as usize);
            let numbered = some.clone().map(|position| grad.rows[position] - first);
            merger.merge_some(numbered, some, values, width);
            if cut == Cut::ByRows {
                merger.sort();
            }
            apply(rows, &merger.merged(width), merger.order());
        });
        Ok(())
    }

    /// Where ranges begin.
    fn find_starts(&mut self, rows: &[i64], height: usize, ranges: usize, cut: Cut) {
        self.starts.clear();
        match cut {
            Cut::ByRows => {
                self.starts.extend((0..ranges).map(|range| (height * range / ranges) as i64));
            }
            Cut::ByUse => {
                let step = rows.len().div_ceil(SAMPLES * ranges);
                self.sample.clear();
                self.sample.extend(rows.iter().step_by(step).copied());
                self.sample.sort_unstable();
                self.starts.push(0);
                for range in 1..ranges {
                    let start = self.sample[self.sample.len() * range / ranges];
                    if start > self.starts[self.starts.len() - 1] && start < height as i64 {
                        self.starts.push(start);
                    }
                }
            }
        }
    }

    /// Fills `positions`; returns where each range begins in it.
    fn sort_positions(&mut self, rows: &[i64], height: usize) -> Result<Vec<usize>> {
        let (ranges, blocks) = (self.starts.len(), crew::hands());
        self.counts.clear();
        self.counts.resize(blocks * ranges, 0);
        self.range_of.resize(rows.len(), 0);
        self.positions.resize(rows.len(), 0);
        let (starts, outside) = (&self.starts, AtomicI64::new(i64::MAX));
        let block = |at: usize| rows.len() * at / blocks..rows.len() * (at + 1) / blocks;
        let (counts, range_of) = (Parts::of(&mut self.counts), Parts::of(&mut self.range_of));
        crew::share_out(blocks, &|at| {
            // SAFETY: every block has counts and ranges of its own.
            let (counts, range_of) =
                unsafe { (counts.part(at * ranges..(at + 1) * ranges), range_of.part(block(at))) };
            for ((position, row), of) in block(at).zip(&rows[block(at)]).zip(range_of) {
                // As an unsigned number, a negative row is too large as well.
                if *row as u64 >= height as u64 {
                    outside.fetch_min(position as i64, Ordering::Relaxed);
                    return;
                }
                let range = starts.partition_point(|start| start <= row) - 1;
                *of = range as u16;
                counts[range] += 1;
            }
        });
        check_outside(rows.get(outside.into_inner() as usize), height)?;
        // Range by range, and within one block by block.
        let mut cuts = Vec::with_capacity(ranges + 1);
        let mut next = 0;
        for range in 0..ranges {
            cuts.push(next);
            for at in 0..blocks {
                let count = std::mem::replace(&mut self.counts[at * ranges + range], next);
                next += count;
            }
        }
        cuts.push(next);
        let (counts, positions) = (Parts::of(&mut self.counts), Parts::of(&mut self.positions));
        let range_of = &self.range_of;
        crew::share_out(blocks, &|at| {
            // SAFETY: as above.
            let next = unsafe { counts.part(at * ranges..(at + 1) * ranges) };
            for position in block(at) {
                let to = &mut next[range_of[position] as usize];
                // SAFETY: places were counted, so each is written once.
                unsafe { positions.part(*to..*to + 1)[0] = position as u32 };
                *to += 1;
            }
        });
        Ok(cuts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::{AdamConfig, rule};
    use crate::tensor::Tensor;

    const HEIGHT: usize = 700;
    const WIDTH: usize = 3;

    /// More rows than are worth cutting, of which a few are named very often.
    fn gradient() -> SelectedRows {
        let count = 2 * LEAST;
        let row = |at: usize| if at.is_multiple_of(3) { at % 5 } else { at * at * 7 % HEIGHT };
        let values: Vec<f32> =
            (0..count * WIDTH).map(|at| (at % 37) as f32 * 0.013 - 0.2).collect();
        SelectedRows {
            rows: (0..count).map(|at| row(at) as i64).collect(),
            height: HEIGHT,
            value: Tensor::from_slice([count, WIDTH], &values).unwrap(),
        }
    }

    /// Parameter and moments after a step of Adam by ranges.
    fn by_ranges(grad: &SelectedRows, cut: Cut) -> Result<[Vec<f32>; 3]> {
        let step = AdamConfig { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }.rule(0.1, 0.9, 0.999);
        let mut values = [0.5, 0.1, 0.2].map(|first| vec![first; HEIGHT * WIDTH]);
        let parts = values.each_mut().map(|values| Parts::of(values));
        let mut ranges = RowRanges::<f32>::default();
        crew::with_threads(4, || {
            // Twice: memory of the first time must not be taken for that of the second.
            (0..2).try_for_each(|_| {
                ranges.each(grad, HEIGHT, cut, |rows, merged, order| {
                    let elements = rows.start * WIDTH..rows.end * WIDTH;
                    // SAFETY: ranges of rows do not overlap.
                    let [param, mean, square] =
                        unsafe { parts.each_ref().map(|values| values.part(elements.clone())) };
                    match cut {
                        Cut::ByUse => rule::update_rows(&step, param, [mean, square], merged),
                        Cut::ByRows => {
                            rule::update_all_rows(&step, param, [mean, square], merged, order);
                        }
                    }
                })
            })
        })?;
        Ok(values)
    }

    #[test]
    fn ranges_give_the_bits_of_one_piece() {
        let grad = gradient();
        assert!(crew::with_hands(4, || RowRanges::<f32>::are_worth_it(&grad)));
        assert!(!RowRanges::<f32>::are_worth_it(&grad), "alone");
        let step = AdamConfig { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }.rule(0.1, 0.9, 0.999);
        for cut in [Cut::ByUse, Cut::ByRows] {
            let mut whole = [0.5, 0.1, 0.2].map(|first| vec![first; HEIGHT * WIDTH]);
            let mut merger = RowMerger::<f32>::default();
            for _ in 0..2 {
                let [param, mean, square] = whole.each_mut().map(Vec::as_mut_slice);
                let (merged, order) = merger.merge_sorted(&grad, HEIGHT).unwrap();
                match cut {
                    Cut::ByUse => rule::update_rows(&step, param, [mean, square], &merged),
                    Cut::ByRows => {
                        rule::update_all_rows(&step, param, [mean, square], &merged, order);
                    }
                }
            }
            assert_eq!(by_ranges(&grad, cut).unwrap(), whole, "{cut:?}");
        }
    }

    #[test]
    fn rows_outside_the_table_are_errors() {
        for row in [HEIGHT as i64, -1] {
            let mut grad = gradient();
            grad.rows[5000] = row;
            for cut in [Cut::ByUse, Cut::ByRows] {
                let error = by_ranges(&grad, cut).unwrap_err().to_string();
                let expected = format!("row {row} lies outside a table of {HEIGHT} rows");
                assert_eq!(error, expected);
            }
        }
    }
}
