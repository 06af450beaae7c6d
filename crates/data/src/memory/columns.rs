//! Samples by column, in as few bytes as their values allow: what is packed from parsed samples, and goes
//! between trainers. [`super::chunk`] is made of them.
//!
//! Ids take one, two, four or eight bytes each, whatever the largest of a column's chunk needs; a
//! column where every sample has as many values keeps no ends.

use std::ops::Range;

use bireme_engine::prefetch::prefetch;

use crate::{Column, Error, Result, Samples, Values};

/// Rows of a chunk at most, so that a row's number in it has 16 bits.
pub(super) const MAX_ROWS: usize = 1 << 16;
/// Values of a column of a chunk at most, so that their number has 32 bits, and one number is left
/// that is none.
pub(super) const MAX_VALUES: usize = u32::MAX as usize - 1;

/// Some samples, packed by column.
pub(super) struct Columns {
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

impl Columns {
    /// Packs some rows of samples, which are such as [`parts`] allows.
    pub(super) fn pack(samples: &Samples, rows: Range<usize>) -> Columns {
        let columns = samples.columns().iter().map(|column| Packed::pack(column, rows.clone()));
        Columns { rows: rows.len(), columns: columns.collect() }
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

    pub(super) fn bytes(&self) -> usize {
        let values = self.values.len() * self.values.bytes_of_one();
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

    #[inline]
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
    pub(super) fn id(&self, at: usize) -> u64 {
        match self {
            Narrow::Ids8(ids) => u64::from(ids[at]),
            Narrow::Ids16(ids) => u64::from(ids[at]),
            Narrow::Ids32(ids) => u64::from(ids[at]),
            Narrow::Ids64(ids) => ids[at],
            Narrow::Floats(_) => unreachable!("samples of the same slots have the same kinds"),
        }
    }

    #[inline]
    pub(super) fn float(&self, at: usize) -> f32 {
        match self {
            Narrow::Floats(values) => values[at],
            _ => unreachable!("samples of the same slots have the same kinds"),
        }
    }

    /// Writes some ids, which keep their bits.
    #[inline]
    pub(super) fn write_ids(&self, range: Range<usize>, to: &mut [i64]) {
        match self {
            Narrow::Ids8(ids) => write(&ids[range], to, i64::from),
            Narrow::Ids16(ids) => write(&ids[range], to, i64::from),
            Narrow::Ids32(ids) => write(&ids[range], to, i64::from),
            Narrow::Ids64(ids) => write(&ids[range], to, |id| id as i64),
            Narrow::Floats(_) => unreachable!("samples of the same slots have the same kinds"),
        }
    }

    /// Writes some numbers.
    #[inline]
    pub(super) fn write_floats(&self, range: Range<usize>, to: &mut [f32]) {
        match self {
            Narrow::Floats(values) => to.copy_from_slice(&values[range]),
            _ => unreachable!("samples of the same slots have the same kinds"),
        }
    }

    /// Asks for some values: the first and the last.
    #[inline]
    pub(super) fn prefetch(&self, first: usize, len: usize) {
        match self {
            Narrow::Ids8(values) => prefetch(values, first, len),
            Narrow::Ids16(values) => prefetch(values, first, len),
            Narrow::Ids32(values) => prefetch(values, first, len),
            Narrow::Ids64(values) => prefetch(values, first, len),
            Narrow::Floats(values) => prefetch(values, first, len),
        }
    }

    /// Bytes of a value.
    pub(super) fn bytes_of_one(&self) -> usize {
        match self {
            Narrow::Ids8(_) => 1,
            Narrow::Ids16(_) => 2,
            Narrow::Ids32(_) | Narrow::Floats(_) => 4,
            Narrow::Ids64(_) => 8,
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

fn write<T: Copy>(from: &[T], to: &mut [i64], id: impl Fn(T) -> i64) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = id(*from));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{push, slots};

    #[test]
    fn no_part_has_more_values_than_can_be_numbered() {
        let mut samples = Samples::of(&slots());
        (0..100).for_each(|number| push(&mut samples, number));
        let most = |rows: Range<usize>| {
            let chunk = Columns::pack(&samples, rows);
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
}
