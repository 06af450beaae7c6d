//! Samples that do not change any more, so that one of them costs few lines of memory wherever it lies.
//!
//! What every sample of a chunk has as many values of stands in its *record*, one sample's behind the
//! other's, without gaps: numbers first, then ids from the narrowest on, so that what is no key of a
//! table lies together. Other slots are columns with ends. Chunks share their layouts, of which there
//! are few, so that whoever meets shuffled samples finds the layout in the nearest cache.

use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use bireme_engine::prefetch::prefetch;

use super::columns::{Columns, Ends, Narrow, Packed};
use super::pages;
use crate::{Samples, Values};

/// Bytes behind the last record: an id is read as eight bytes, whatever it takes.
const PADDING: usize = 7;
/// Bytes that the machine brings from memory at once.
const LINE: usize = 64;
/// Rows whose values are put into their records together.
const ROWS_TOGETHER: usize = 256;

/// Some samples, packed.
#[derive(Default)]
pub(super) struct Chunk {
    pub(super) rows: usize,
    layout: Arc<Layout>,
    records: Box<[u8]>,
    ragged: Vec<Packed>,
}

/// Where the values of each slot are.
#[derive(Default, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    places: Box<[Place]>,
    /// Bytes of a record.
    stride: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Record(Field),
    /// In the column of this number.
    Column(usize),
}

/// Values in a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Field {
    /// The byte of the record at which they begin.
    pub(super) offset: usize,
    /// How many there are.
    pub(super) width: usize,
    /// Bytes of each.
    bytes: usize,
}

/// A sample's record.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) layout: &'a Layout,
    /// With some bytes behind it.
    bytes: &'a [u8],
}

/// What a sample has for a slot.
pub(super) enum Found<'a> {
    Record(Record<'a>, Field),
    Column(&'a Narrow, Range<usize>),
}

impl From<Columns> for Chunk {
    fn from(columns: Columns) -> Chunk {
        let Columns { rows, columns } = columns;
        let layout = Arc::new(Layout::of(&columns));
        let bytes = layout.stride * rows;
        let mut records = vec![0; if bytes == 0 { 0 } else { bytes + PADDING }].into_boxed_slice();
        pages::ask_for_large(&mut records);
        for first in (0..rows).step_by(ROWS_TOGETHER) {
            let rows = first..rows.min(first + ROWS_TOGETHER);
            for (column, place) in columns.iter().zip(&layout.places) {
                if let Place::Record(field) = place {
                    field.put(&column.values, rows.clone(), layout.stride, &mut records);
                }
            }
        }
        let ragged = columns.into_iter().filter(|column| matches!(column.ends, Ends::At(_)));
        Chunk { rows, ragged: ragged.collect(), layout, records }
    }
}

impl Chunk {
    /// Bytes that it takes, its part of the layout not counted.
    pub(super) fn bytes(&self) -> usize {
        let own = size_of::<Chunk>() + self.ragged.len() * size_of::<Packed>();
        own + self.records.len() + self.ragged.iter().map(Packed::bytes).sum::<usize>()
    }

    /// Where the values of each slot are.
    pub(super) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Takes the same layout from somebody else.
    pub(super) fn share(&mut self, layout: &Arc<Layout>) {
        debug_assert!(self.layout == *layout, "a chunk keeps its layout");
        self.layout = Arc::clone(layout);
    }

    /// The record of a row.
    #[inline]
    pub(super) fn record(&self, row: usize) -> Record<'_> {
        let at = row * self.layout.stride;
        Record { layout: &self.layout, bytes: self.records.get(at..).unwrap_or_default() }
    }

    /// What a row has for a slot.
    #[inline]
    pub(super) fn find(&self, slot: usize, row: usize) -> Found<'_> {
        match self.layout.places[slot] {
            Place::Record(field) => Found::Record(self.record(row), field),
            Place::Column(at) => {
                let column = &self.ragged[at];
                Found::Column(&column.values, column.ends.range(row))
            }
        }
    }

    /// How many values a row has for a slot.
    #[inline]
    pub(super) fn count(&self, slot: usize, row: usize) -> usize {
        match self.layout.places[slot] {
            Place::Record(field) => field.width,
            Place::Column(at) => self.ragged[at].ends.range(row).len(),
        }
    }

    /// How many values each sample has for a slot, if all have as many.
    pub(super) fn width(&self, slot: usize) -> Option<usize> {
        self.layout.field(slot).map(|field| field.width)
    }

    /// The ids of a row.
    pub(super) fn ids(&self, slot: usize, row: usize) -> impl Iterator<Item = u64> {
        let found = self.find(slot, row);
        (0..found.len()).map(move |at| found.id(at))
    }

    /// The numbers of a row.
    pub(super) fn floats(&self, slot: usize, row: usize) -> impl Iterator<Item = f32> {
        let found = self.find(slot, row);
        (0..found.len()).map(move |at| found.float(at))
    }

    /// A number below `bound` that the ids of a row decide, on every machine alike (FNV-1a).
    pub(super) fn number(&self, slot: usize, row: usize, bound: usize) -> usize {
        let hash = self.ids(slot, row).fold(0xcbf2_9ce4_8422_2325_u64, |hash, id| {
            (hash ^ id).wrapping_mul(0x0000_0100_0000_01b3)
        });
        (hash % bound as u64) as usize
    }

    /// Appends a row to samples of the same slots.
    pub(super) fn unpack(&self, row: usize, out: &mut Samples) {
        for (slot, out) in out.columns_mut().iter_mut().enumerate() {
            match out.values_mut() {
                Values::Ids(out) => out.extend(self.ids(slot, row)),
                Values::Floats(out) => out.extend(self.floats(slot, row)),
            }
        }
        out.end_row();
    }

    /// Asks for where a row's values of a slot end, which [`Chunk::find`] reads.
    #[inline]
    pub(super) fn prefetch_end(&self, slot: usize, row: usize) {
        if let Place::Column(at) = self.layout.places[slot]
            && let Ends::At(ends) = &self.ragged[at].ends
        {
            prefetch(ends, row, 1);
        }
    }
}

impl Layout {
    fn of(columns: &[Packed]) -> Layout {
        let mut ragged = 0;
        let places = columns.iter().map(|column| match column.ends {
            Ends::Width(width) => {
                Place::Record(Field { offset: 0, width, bytes: column.values.bytes_of_one() })
            }
            Ends::At(_) => {
                ragged += 1;
                Place::Column(ragged - 1)
            }
        });
        let mut places: Box<[Place]> = places.collect();
        let is_float = |column: &Packed| matches!(column.values, Narrow::Floats(_));
        let mut fields: Vec<(bool, &mut Field)> = Vec::new();
        for (place, column) in places.iter_mut().zip(columns) {
            if let Place::Record(field) = place {
                fields.push((!is_float(column), field));
            }
        }
        fields.sort_by_key(|(is_id, field)| (*is_id, field.bytes));
        let mut stride = 0;
        for (_, field) in fields {
            field.offset = stride;
            stride += field.width * field.bytes;
        }
        Layout { places, stride }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val::<[Place]>(&self.places)
    }

    /// Where the values of a slot are in a record, if they are there.
    #[inline]
    pub(super) fn field(&self, slot: usize) -> Option<Field> {
        match self.places[slot] {
            Place::Record(field) => Some(field),
            Place::Column(_) => None,
        }
    }

    /// The bytes of a record that have these slots, and maybe others between them.
    pub(super) fn span(&self, slots: impl Iterator<Item = usize>) -> Range<usize> {
        let fields = slots.filter_map(|slot| self.field(slot));
        let span = fields.map(|field| field.offset..field.offset + field.width * field.bytes);
        span.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end)).unwrap_or(0..0)
    }
}

impl Field {
    fn put(self, values: &Narrow, rows: Range<usize>, stride: usize, records: &mut [u8]) {
        match values {
            Narrow::Ids8(values) => {
                self.put_all(values, rows, stride, records, |v| v.to_le_bytes())
            }
            Narrow::Ids16(values) => {
                self.put_all(values, rows, stride, records, |v| v.to_le_bytes())
            }
            Narrow::Ids32(values) => {
                self.put_all(values, rows, stride, records, |v| v.to_le_bytes())
            }
            Narrow::Ids64(values) => {
                self.put_all(values, rows, stride, records, |v| v.to_le_bytes())
            }
            Narrow::Floats(values) => {
                self.put_all(values, rows, stride, records, |v| v.to_le_bytes())
            }
        }
    }

    fn put_all<T: Copy, const N: usize>(
        self,
        values: &[T],
        rows: Range<usize>,
        stride: usize,
        records: &mut [u8],
        bytes: impl Fn(T) -> [u8; N],
    ) {
        for row in rows {
            let from = &values[row * self.width..(row + 1) * self.width];
            let to = &mut records[row * stride + self.offset..][..self.width * N];
            for (to, value) in to.as_chunks_mut::<N>().0.iter_mut().zip(from) {
                *to = bytes(*value);
            }
        }
    }

    /// The bits of eight bytes that are an id.
    #[inline]
    pub(super) fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes)
    }

    /// The byte of the record at which a value begins.
    #[inline]
    pub(super) fn at(self, value: usize) -> usize {
        self.offset + value * self.bytes
    }
}

impl<'a> Record<'a> {
    /// The id at a byte, of these bits.
    #[inline]
    pub(super) fn id(self, at: usize, mask: u64) -> u64 {
        // There are always so many: records have bytes behind them.
        self.bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes) & mask)
    }

    /// The numbers of a field.
    #[inline]
    pub(super) fn floats(self, field: Field) -> impl Iterator<Item = f32> + 'a {
        let bytes = &self.bytes[field.offset..][..4 * field.width];
        bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
    }

    /// Asks for some bytes of it.
    #[inline]
    pub(super) fn prefetch(self, span: &Range<usize>) {
        let lines = span.clone().step_by(LINE).chain(span.end.checked_sub(1));
        lines.for_each(|at| prefetch(self.bytes, at, 1));
    }
}

impl Found<'_> {
    /// How many values there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Found::Record(_, field) => field.width,
            Found::Column(_, range) => range.len(),
        }
    }

    #[inline]
    fn id(&self, at: usize) -> u64 {
        match self {
            Found::Record(record, field) => record.id(field.at(at), field.mask()),
            Found::Column(values, range) => values.id(range.start + at),
        }
    }

    #[inline]
    fn float(&self, at: usize) -> f32 {
        match self {
            Found::Record(record, field) => {
                let bytes = record.bytes[field.at(at)..].first_chunk();
                bytes.map_or(0.0, |bytes| f32::from_le_bytes(*bytes))
            }
            Found::Column(values, range) => values.float(range.start + at),
        }
    }

    /// Writes ids, which keep their bits.
    #[inline]
    pub(super) fn write_ids(&self, to: &mut [i64]) {
        match self {
            Found::Column(values, range) => values.write_ids(range.clone(), to),
            Found::Record(record, field) => {
                let mask = field.mask();
                for (at, to) in to.iter_mut().enumerate() {
                    *to = record.id(field.at(at), mask) as i64;
                }
            }
        }
    }

    /// Writes numbers.
    #[inline]
    pub(super) fn write_floats(&self, to: &mut [f32]) {
        match self {
            Found::Column(values, range) => values.write_floats(range.clone(), to),
            Found::Record(record, field) => {
                to.iter_mut().zip(record.floats(*field)).for_each(|(to, value)| *to = value);
            }
        }
    }

    /// Asks for the values.
    #[inline]
    pub(super) fn prefetch(&self) {
        match self {
            Found::Record(record, field) => {
                record.prefetch(&(field.offset..field.at(field.width)));
            }
            Found::Column(values, range) => values.prefetch(range.start, range.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::parts;
    use super::*;
    use crate::Slot;
    use crate::testing::{push, slots};

    fn chunk(samples: &Samples, rows: Range<usize>) -> Chunk {
        Columns::pack(samples, rows).into()
    }

    #[test]
    fn packing_loses_nothing_and_takes_the_bytes_that_values_need() {
        for (numbers, bytes_of_label, bytes_of_id) in
            [(vec![1_u64, 2], 1, 2), (vec![1, 60_000], 2, 4), (vec![1, 1 << 40], 8, 8)]
        {
            let mut samples = Samples::of(&slots());
            numbers.iter().for_each(|&number| push(&mut samples, number));
            let chunk = chunk(&samples, 0..numbers.len());
            let mut back = Samples::of(&slots());
            (0..numbers.len()).for_each(|row| chunk.unpack(row, &mut back));
            assert_eq!(back, samples);
            let [ids] = &chunk.ragged[..] else { panic!("one slot is ragged") };
            assert_eq!(ids.bytes(), ids.values.len() * bytes_of_id + 4 * numbers.len());
            assert_eq!(chunk.records.len(), numbers.len() * (bytes_of_label + 8) + PADDING);
        }
    }

    #[test]
    fn some_rows_can_be_packed_alone() {
        let mut samples = Samples::of(&slots());
        (0..10).for_each(|number| push(&mut samples, number));
        let some = chunk(&samples, 3..5);
        let (mut back, mut right) = (Samples::of(&slots()), Samples::of(&slots()));
        (0..2).for_each(|row| some.unpack(row, &mut back));
        [3, 4].into_iter().for_each(|number| push(&mut right, number));
        assert_eq!(back, right);
        // All of these have as many ids: no ends are kept.
        let mut even = Samples::of(&slots());
        [3, 13, 23].into_iter().for_each(|number| push(&mut even, number));
        let even = chunk(&even, 0..3);
        assert_eq!((even.width(1), even.ragged.len()), (Some(4), 0));
        assert_eq!(chunk(&Samples::of(&slots()), 0..0).rows, 0);
        assert!(parts(&Samples::of(&slots()), 1).unwrap().is_empty());
    }

    #[test]
    fn numbers_lie_before_ids_and_narrow_ids_before_wide_ones() {
        let slots = [Slot::id("wide"), Slot::floats("dense", 3), Slot::id("narrow")];
        let mut samples = Samples::of(&slots);
        for row in 0..1000_u64 {
            let [wide, dense, narrow] = samples.columns_mut() else { panic!("three columns") };
            let (Values::Ids(wide), Values::Floats(dense), Values::Ids(narrow)) =
                (wide.values_mut(), dense.values_mut(), narrow.values_mut())
            else {
                panic!("ids, floats and ids")
            };
            wide.push(u64::MAX - row);
            dense.extend([row as f32, -0.0, f32::MIN_POSITIVE]);
            narrow.push(row % 256);
            samples.end_row();
        }
        let chunk = chunk(&samples, 0..1000);
        let offsets = [0, 1, 2].map(|slot| chunk.layout.field(slot).unwrap().offset);
        assert_eq!((offsets, chunk.layout.stride), ([13, 0, 12], 21));
        assert_eq!(chunk.layout.span([1, 2].into_iter()), 0..13);
        let mut back = Samples::of(&slots);
        (0..1000).for_each(|row| chunk.unpack(row, &mut back));
        assert_eq!(back, samples);
    }
}
