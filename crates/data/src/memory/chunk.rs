//! Samples that do not change any more, in as few bytes as their values allow.
//!
//! Ids take one, two, four or eight bytes each, whatever the largest of a column's chunk needs; a
//! column where every sample has as many values keeps no ends.

use std::ops::Range;

use bireme_engine::tensor::Tensor;

use crate::{Column, Error, Result, Samples, Slot, Values};

/// Rows of a chunk at most, so that a row's number in it has 16 bits.
pub(super) const MAX_ROWS: usize = 1 << 16;
/// Values of a column of a chunk at most, so that their number has 32 bits, and one number is left
/// that is none.
pub(super) const MAX_VALUES: usize = u32::MAX as usize - 1;

/// Some samples, packed.
pub(super) struct Chunk {
    pub(super) rows: usize,
    pub(super) columns: Vec<Packed>,
}

/// One slot's values.
pub(super) struct Packed {
    pub(super) values: Narrow,
    pub(super) ends: Ends,
}

/// Values in as many bytes as they need.
pub(super) enum Narrow {
    Ids8(Box<[u8]>),
    Ids16(Box<[u16]>),
    Ids32(Box<[u32]>),
    Ids64(Box<[u64]>),
    Floats(Box<[f32]>),
}

/// Which values belong to which sample.
pub(super) enum Ends {
    /// Each has so many.
    Width(usize),
    /// Where each sample's values end.
    At(Box<[u32]>),
}

impl Chunk {
    /// Packs some rows of samples, which are such as [`parts`] allows.
    pub(super) fn pack(samples: &Samples, rows: Range<usize>) -> Chunk {
        let columns = samples.columns().iter().map(|column| Packed::pack(column, rows.clone()));
        Chunk { rows: rows.len(), columns: columns.collect() }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let own = size_of::<Chunk>() + self.columns.len() * size_of::<Packed>();
        own + self.columns.iter().map(Packed::bytes).sum::<usize>()
    }

    /// Appends a row to samples of the same slots.
    pub(super) fn unpack(&self, row: usize, out: &mut Samples) {
        for (column, out) in self.columns.iter().zip(out.columns_mut()) {
            let range = column.ends.range(row);
            match (&column.values, out.values_mut()) {
                (Narrow::Floats(values), Values::Floats(out)) => {
                    out.extend_from_slice(&values[range]);
                }
                (ids, Values::Ids(out)) => out.extend(range.map(|at| ids.id(at))),
                (_, Values::Floats(_)) => {
                    unreachable!("samples of the same slots have columns of the same kinds")
                }
            }
        }
        out.end_row();
    }
}

/// Cuts samples into chunks: no more than [`MAX_ROWS`] rows, and in no column more than
/// `max_values` values.
///
/// # Errors
/// When one sample has more.
pub(super) fn parts(samples: &Samples, max_values: usize) -> Result<Vec<Range<usize>>> {
    let values = |rows: &Range<usize>| {
        let ends =
            |column: &Column| column.range(rows.end - 1).end - column.range(rows.start).start;
        samples.columns().iter().map(ends).max().unwrap_or(0)
    };
    let (mut parts, mut first) = (Vec::new(), 0);
    while first < samples.len() {
        let mut part = first..samples.len().min(first + MAX_ROWS);
        while values(&part) > max_values {
            if part.len() == 1 {
                return Err(Error::Settings(format!(
                    "a sample has more than {max_values} values for one slot: is the file what it \
                     should be?"
                )));
            }
            part.end = first + part.len() / 2;
        }
        first = part.end;
        parts.push(part);
    }
    Ok(parts)
}

impl Packed {
    fn pack(column: &Column, rows: Range<usize>) -> Packed {
        let from = if rows.is_empty() { 0 } else { column.range(rows.start).start };
        let to = if rows.is_empty() { 0 } else { column.range(rows.end - 1).end };
        let ends = match column.width() {
            Some(width) => Ends::Width(width),
            None => {
                let ends = rows.map(|row| (column.range(row).end - from) as u32);
                Ends::even(ends.collect())
            }
        };
        let values = match column.values() {
            Values::Ids(values) => Narrow::ids(&values[from..to]),
            Values::Floats(values) => Narrow::Floats(values[from..to].into()),
        };
        Packed { values, ends }
    }

    /// The ids of a row.
    pub(super) fn ids(&self, row: usize) -> impl Iterator<Item = u64> {
        self.ends.range(row).map(|at| self.values.id(at))
    }

    /// A number below `bound` that the ids of a row decide, on every machine alike (FNV-1a).
    pub(super) fn number(&self, row: usize, bound: usize) -> usize {
        let hash = self.ids(row).fold(0xcbf2_9ce4_8422_2325_u64, |hash, id| {
            (hash ^ id).wrapping_mul(0x0000_0100_0000_01b3)
        });
        (hash % bound as u64) as usize
    }

    fn bytes(&self) -> usize {
        let values = match &self.values {
            Narrow::Ids8(values) => size_of_val::<[u8]>(values),
            Narrow::Ids16(values) => size_of_val::<[u16]>(values),
            Narrow::Ids32(values) => size_of_val::<[u32]>(values),
            Narrow::Ids64(values) => size_of_val::<[u64]>(values),
            Narrow::Floats(values) => size_of_val::<[f32]>(values),
        };
        match &self.ends {
            Ends::Width(_) => values,
            Ends::At(ends) => values + size_of_val::<[u32]>(ends),
        }
    }
}

impl Ends {
    /// Ends, or the width where all samples have as many values.
    fn even(ends: Box<[u32]>) -> Ends {
        let width = ends.first().copied().unwrap_or(0);
        let even =
            ends.iter().zip(1..).all(|(&end, rows)| u64::from(end) == u64::from(width) * rows);
        if even { Ends::Width(width as usize) } else { Ends::At(ends) }
    }

    pub(super) fn range(&self, row: usize) -> Range<usize> {
        match self {
            Ends::Width(width) => row * width..(row + 1) * width,
            Ends::At(ends) => {
                let start = if row == 0 { 0 } else { ends[row - 1] as usize };
                start..ends[row] as usize
            }
        }
    }
}

impl Narrow {
    fn ids(ids: &[u64]) -> Narrow {
        let largest = ids.iter().copied().max().unwrap_or(0);
        if u8::try_from(largest).is_ok() {
            Narrow::Ids8(ids.iter().map(|&id| id as u8).collect())
        } else if u16::try_from(largest).is_ok() {
            Narrow::Ids16(ids.iter().map(|&id| id as u16).collect())
        } else if u32::try_from(largest).is_ok() {
            Narrow::Ids32(ids.iter().map(|&id| id as u32).collect())
        } else {
            Narrow::Ids64(ids.into())
        }
    }

    #[inline]
    fn id(&self, at: usize) -> u64 {
        match self {
            Narrow::Ids8(ids) => u64::from(ids[at]),
            Narrow::Ids16(ids) => u64::from(ids[at]),
            Narrow::Ids32(ids) => u64::from(ids[at]),
            Narrow::Ids64(ids) => ids[at],
            Narrow::Floats(_) => unreachable!("samples of the same slots have the same kinds"),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Narrow::Ids8(values) => values.len(),
            Narrow::Ids16(values) => values.len(),
            Narrow::Ids32(values) => values.len(),
            Narrow::Ids64(values) => values.len(),
            Narrow::Floats(values) => values.len(),
        }
    }
}

/// Writes the values of a slot for these rows, each of a chunk's column.
pub(super) fn gather<'a>(
    slot: &Slot,
    tensor: &mut Tensor,
    rows: impl ExactSizeIterator<Item = (&'a Packed, usize)> + Clone,
) {
    let count = match slot.width() {
        Some(width) => width * rows.len(),
        None => rows.clone().map(|(column, row)| column.ends.range(row).len()).sum(),
    };
    tensor.resize(tensor.dtype(), slot.dims(rows.len(), count));
    let reason = "the tensor of a slot has the type of its kind";
    match slot.kind {
        crate::Kind::Ids => {
            let mut out = tensor.as_mut_slice::<i64>().expect(reason).iter_mut();
            for (column, row) in rows.clone() {
                // Ids keep their bits.
                let ids = column.ends.range(row).map(|at| column.values.id(at) as i64);
                ids.zip(&mut out).for_each(|(id, out)| *out = id);
            }
        }
        crate::Kind::Floats => {
            let mut out = tensor.as_mut_slice::<f32>().expect(reason);
            for (column, row) in rows.clone() {
                let Narrow::Floats(values) = &column.values else { unreachable!("floats") };
                let values = &values[column.ends.range(row)];
                let (to, rest) = out.split_at_mut(values.len());
                to.copy_from_slice(values);
                out = rest;
            }
        }
    }
    if slot.shape.is_none() {
        let mut end = 0;
        let ends = rows.map(|(column, row)| {
            end += column.ends.range(row).len();
            end
        });
        tensor.set_lod(&[slot.offsets(count, ends)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{push, slots};

    #[test]
    fn packing_loses_nothing_and_takes_the_bytes_that_values_need() {
        for (numbers, bytes_of_an_id) in
            [(vec![1_u64, 2], 2), (vec![1, 60_000], 4), (vec![1, 1 << 40], 8)]
        {
            let mut samples = Samples::of(&slots());
            numbers.iter().for_each(|&number| push(&mut samples, number));
            let chunk = Chunk::pack(&samples, 0..numbers.len());
            let mut back = Samples::of(&slots());
            (0..numbers.len()).for_each(|row| chunk.unpack(row, &mut back));
            assert_eq!(back, samples);
            let ids = &chunk.columns[1];
            assert_eq!(ids.bytes(), ids.values.len() * bytes_of_an_id + 4 * numbers.len());
        }
    }

    #[test]
    fn no_part_has_more_values_than_can_be_numbered() {
        let mut samples = Samples::of(&slots());
        (0..100).for_each(|number| push(&mut samples, number));
        let most = |rows: Range<usize>| {
            let chunk = Chunk::pack(&samples, rows);
            chunk.columns.iter().map(|column| column.values.len()).max().unwrap()
        };
        let all = most(0..100);
        assert_eq!(parts(&samples, all).unwrap().len(), 1);
        let cut = parts(&samples, all / 9).unwrap();
        assert!(cut.len() > 9 && cut.iter().all(|part| most(part.clone()) <= all / 9));
        assert!(cut.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((cut[0].start, cut.last().unwrap().end), (0, 100));
        let error = parts(&samples, 1).unwrap_err().to_string();
        assert!(error.contains("more than 1 values for one slot"), "{error}");
        assert!(parts(&Samples::of(&slots()), 1).unwrap().is_empty());
    }

    #[test]
    fn some_rows_can_be_packed_alone() {
        let mut samples = Samples::of(&slots());
        (0..10).for_each(|number| push(&mut samples, number));
        let chunk = Chunk::pack(&samples, 3..5);
        let (mut back, mut right) = (Samples::of(&slots()), Samples::of(&slots()));
        (0..2).for_each(|row| chunk.unpack(row, &mut back));
        [3, 4].into_iter().for_each(|number| push(&mut right, number));
        assert_eq!(back, right);
        // All of these have as many ids: no ends are kept.
        let mut even = Samples::of(&slots());
        [3, 13, 23].into_iter().for_each(|number| push(&mut even, number));
        assert!(matches!(Chunk::pack(&even, 0..3).columns[1].ends, Ends::Width(4)));
    }
}
