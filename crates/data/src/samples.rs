//! Parsed samples, a column for each slot: what parsers write and datasets keep.

use std::ops::Range;

use crate::{Kind, Slot};

/// Samples by column, in the order of their slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    rows: usize,
    columns: Vec<Column>,
}

/// The values of one slot for all samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    values: Values,
    /// Where the values of each sample end; empty while each has `width` values.
    ends: Vec<usize>,
    width: usize,
}

/// Values of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Of [`Kind::Ids`].
    Ids(Vec<u64>),
    /// Of [`Kind::Floats`].
    Floats(Vec<f32>),
}

impl Samples {
    /// No samples yet, of these slots.
    pub fn of(slots: &[Slot]) -> Samples {
        Samples { rows: 0, columns: slots.iter().map(Column::of).collect() }
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The columns, in the order of the slots.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// For a parser, which appends one sample's values to every column and then calls
    /// [`Samples::end_row`].
    pub fn columns_mut(&mut self) -> &mut [Column] {
        &mut self.columns
    }

    /// Ends the sample whose values were appended.
    pub fn end_row(&mut self) {
        for column in &mut self.columns {
            column.end_row(self.rows, column.values.len());
        }
        self.rows += 1;
    }

    /// Ends some samples at once, whose values were appended one sample's after the other's:
    /// for each column how many values each of them has.
    pub(crate) fn end_rows<const N: usize>(&mut self, counts: &[[u32; N]]) {
        for (column, counts) in self.columns.iter_mut().zip(counts) {
            if column.ends.is_empty() && *counts == [column.width as u32; N] {
                continue;
            }
            let all: usize = counts.iter().map(|&count| count as usize).sum();
            let mut end = column.values.len() - all;
            for (row, &count) in counts.iter().enumerate() {
                end += count as usize;
                column.end_row(self.rows + row, end);
            }
        }
        self.rows += N;
    }

    /// Ends some samples at once that have as many values as all before them.
    pub(crate) fn end_even_rows(&mut self, rows: usize) {
        self.rows += rows;
    }

    /// Takes back what was appended since the last [`Samples::end_row`]: the line was bad.
    pub fn drop_unfinished(&mut self) {
        for column in &mut self.columns {
            let end = column.range(self.rows).start;
            column.values.truncate(end);
        }
    }

    /// Forgets all samples, and keeps the memory.
    pub fn clear(&mut self) {
        self.rows = 0;
        for column in &mut self.columns {
            column.values.truncate(0);
            column.ends.clear();
        }
    }

    /// Appends a sample of other samples with the same slots.
    pub fn push_row(&mut self, other: &Samples, row: usize) {
        for (column, from) in self.columns.iter_mut().zip(&other.columns) {
            column.values.extend(&from.values, from.range(row));
        }
        self.end_row();
    }

    /// Appends all of other samples with the same slots.
    pub fn append(&mut self, other: &Samples) {
        for row in 0..other.rows {
            self.push_row(other, row);
        }
    }

    /// Bytes of memory that the values need.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }
}

impl Column {
    fn of(slot: &Slot) -> Column {
        let values = match slot.kind {
            Kind::Ids => Values::Ids(Vec::new()),
            Kind::Floats => Values::Floats(Vec::new()),
        };
        // Most slots that may have any number of ids have one.
        Column { values, ends: Vec::new(), width: slot.width().unwrap_or(1) }
    }

    /// All values, one sample's after the other's.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// For a parser, to append a sample's values.
    pub fn values_mut(&mut self) -> &mut Values {
        &mut self.values
    }

    /// Where the values of a sample are.
    pub fn range(&self, row: usize) -> Range<usize> {
        if self.ends.is_empty() {
            return row * self.width..(row + 1) * self.width;
        }
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        start..self.ends.get(row).copied().unwrap_or(start)
    }

    /// How many values each sample has, if all have as many.
    pub fn width(&self) -> Option<usize> {
        self.ends.is_empty().then_some(self.width)
    }

    /// How many values the sample `row` has so far, which has not ended yet.
    #[inline]
    pub(crate) fn unfinished(&self, row: usize) -> usize {
        let start = match self.ends.last() {
            Some(&end) => end,
            None => row * self.width,
        };
        self.values.len() - start
    }

    fn end_row(&mut self, row: usize, end: usize) {
        if self.ends.is_empty() {
            if end == (row + 1) * self.width {
                return;
            }
            // The first sample that is different: from now on every end is kept.
            self.ends = (1..=row).map(|row| row * self.width).collect();
        }
        self.ends.push(end);
    }

    fn bytes(&self) -> usize {
        let values = match &self.values {
            Values::Ids(values) => values.len() * 8,
            Values::Floats(values) => values.len() * 4,
        };
        values + size_of_val(self.ends.as_slice())
    }
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Ids(values) => values.len(),
            Values::Floats(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn truncate(&mut self, len: usize) {
        match self {
            Values::Ids(values) => values.truncate(len),
            Values::Floats(values) => values.truncate(len),
        }
    }

    fn extend(&mut self, other: &Values, range: Range<usize>) {
        match (self, other) {
            (Values::Ids(to), Values::Ids(from)) => to.extend_from_slice(&from[range]),
            (Values::Floats(to), Values::Floats(from)) => to.extend_from_slice(&from[range]),
            _ => unreachable!("samples of the same slots have columns of the same kinds"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(samples: &mut Samples, ids: &[u64]) {
        let Values::Ids(values) = samples.columns_mut()[0].values_mut() else { panic!("ids") };
        values.extend_from_slice(ids);
        samples.end_row();
    }

    #[test]
    fn ends_are_kept_from_the_first_sample_that_is_different() {
        let mut samples = Samples::of(&[Slot::ids("a")]);
        push(&mut samples, &[1]);
        push(&mut samples, &[2]);
        assert_eq!(samples.columns()[0].width(), Some(1));
        push(&mut samples, &[3, 4]);
        push(&mut samples, &[5]);
        let ranges: Vec<_> = (0..4).map(|row| samples.columns()[0].range(row)).collect();
        assert_eq!(ranges, [0..1, 1..2, 2..4, 4..5]);
        let mut copy = Samples::of(&[Slot::ids("a")]);
        copy.append(&samples);
        assert_eq!(copy, samples);
    }

    #[test]
    fn an_unfinished_sample_can_be_taken_back() {
        for first in [&[1][..], &[1, 2]] {
            let mut samples = Samples::of(&[Slot::ids("a")]);
            push(&mut samples, first);
            let before = samples.clone();
            let Values::Ids(values) = samples.columns_mut()[0].values_mut() else { panic!("ids") };
            values.extend([7, 8, 9]);
            samples.drop_unfinished();
            assert_eq!(samples, before);
        }
    }
}
