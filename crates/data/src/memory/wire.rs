//! Packed samples as bytes, for the way between trainers.
//!
//! Little-endian: the rows, then for each column its kind, its width or ends, and its values.
//! Whatever arrives is checked against the slots before it is used.

use super::columns::{Columns, Ends, MAX_ROWS, Narrow, Packed};
use crate::{Error, Kind, Result, Slot};

/// Marks a column that has ends; no width is so large.
const HAS_ENDS: u32 = u32::MAX;

/// The bytes of some samples.
pub(super) fn encode(chunk: &Columns) -> Vec<u8> {
    let bytes: usize = chunk.columns.iter().map(|column| column.bytes() + 16).sum();
    let mut out = Vec::with_capacity(bytes + 4);
    put(&mut out, chunk.rows);
    for column in &chunk.columns {
        match &column.ends {
            Ends::Width(width) => put(&mut out, *width),
            Ends::At(ends) => {
                out.extend(HAS_ENDS.to_le_bytes());
                ends.iter().for_each(|end| out.extend(end.to_le_bytes()));
            }
        }
        put(&mut out, column.values.len());
        match &column.values {
            Narrow::Ids8(values) => values_out(&mut out, 1, values, |v| v.to_le_bytes()),
            Narrow::Ids16(values) => values_out(&mut out, 2, values, |v| v.to_le_bytes()),
            Narrow::Ids32(values) => values_out(&mut out, 4, values, |v| v.to_le_bytes()),
            Narrow::Ids64(values) => values_out(&mut out, 8, values, |v| v.to_le_bytes()),
            Narrow::Floats(values) => values_out(&mut out, 0, values, |v| v.to_le_bytes()),
        }
    }
    out
}

fn put(out: &mut Vec<u8>, number: usize) {
    out.extend((number as u32).to_le_bytes());
}

fn values_out<T: Copy, const N: usize>(
    out: &mut Vec<u8>,
    kind: u8,
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) {
    out.push(kind);
    values.iter().for_each(|&value| out.extend(bytes(value)));
}

/// The samples of some bytes, which must have these slots.
pub(super) fn decode(bytes: &[u8], slots: &[Slot]) -> Result<Columns> {
    let wrong = || {
        Error::Peers(
            "samples of another trainer have other slots than here: all trainers must give their \
             datasets the same variables"
                .to_owned(),
        )
    };
    let mut cursor = Cursor(bytes);
    let chunk = cursor.chunk(slots).ok_or_else(wrong)?;
    if cursor.0.is_empty() { Ok(chunk) } else { Err(wrong()) }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn chunk(&mut self, slots: &[Slot]) -> Option<Columns> {
        let rows = self.number()?;
        if rows > MAX_ROWS {
            return None;
        }
        let columns = slots.iter().map(|slot| self.column(slot, rows));
        Some(Columns { rows, columns: columns.collect::<Option<_>>()? })
    }

    fn column(&mut self, slot: &Slot, rows: usize) -> Option<Packed> {
        let width = u32::from_le_bytes(self.array()?);
        let ends = if width == HAS_ENDS {
            let ends = self.values(rows, u32::from_le_bytes)?;
            if !ends.is_sorted() || slot.width().is_some() {
                return None;
            }
            Ends::At(ends)
        } else {
            Ends::Width(width as usize)
        };
        let count = self.number()?;
        let right = match &ends {
            Ends::Width(width) => {
                slot.width().is_none_or(|needed| needed == *width)
                    && width.checked_mul(rows) == Some(count)
            }
            Ends::At(ends) => ends.last().map_or(0, |&end| end as usize) == count,
        };
        let [kind] = self.array()?;
        let values = match (slot.kind, kind) {
            (Kind::Floats, 0) => Narrow::Floats(self.values(count, f32::from_le_bytes)?),
            (Kind::Ids, 1) => Narrow::Ids8(self.values(count, u8::from_le_bytes)?),
            (Kind::Ids, 2) => Narrow::Ids16(self.values(count, u16::from_le_bytes)?),
            (Kind::Ids, 4) => Narrow::Ids32(self.values(count, u32::from_le_bytes)?),
            (Kind::Ids, 8) => Narrow::Ids64(self.values(count, u64::from_le_bytes)?),
            _ => return None,
        };
        right.then_some(Packed { values, ends })
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<usize> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn values<T, const N: usize>(
        &mut self,
        count: usize,
        value: impl Fn([u8; N]) -> T,
    ) -> Option<Box<[T]>> {
        let (bytes, rest) = self.0.split_at_checked(count.checked_mul(N)?)?;
        self.0 = rest;
        let (chunks, _) = bytes.as_chunks::<N>();
        Some(chunks.iter().map(|bytes| value(*bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::Chunk;
    use super::*;
    use crate::Samples;
    use crate::testing::{push, slots};

    fn samples() -> Samples {
        let mut samples = Samples::of(&slots());
        [3, 70_000, 1 << 50].into_iter().for_each(|number| push(&mut samples, number));
        samples
    }

    #[test]
    fn what_is_encoded_comes_back() {
        let columns = decode(&encode(&Columns::pack(&samples(), 0..3)), &slots()).unwrap();
        let chunk = Chunk::from(columns);
        let mut back = Samples::of(&slots());
        (0..3).for_each(|row| chunk.unpack(row, &mut back));
        assert_eq!(back, samples());
    }

    #[test]
    fn broken_bytes_are_refused_and_other_slots_named() {
        let bytes = encode(&Columns::pack(&samples(), 0..3));
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut], &slots()).is_err());
        }
        // No byte that is different may panic, now or when the samples are used.
        for at in 0..bytes.len() {
            for wrong in [0, 1, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                if let Ok(columns) = decode(&bytes, &slots()) {
                    let chunk = Chunk::from(columns);
                    let mut back = Samples::of(&slots());
                    (0..chunk.rows).for_each(|row| chunk.unpack(row, &mut back));
                }
            }
        }
        let others = [Slot::id("label"), Slot::floats("ids", 1), Slot::floats("dense", 2)];
        let error = decode(&bytes, &others).err().unwrap().to_string();
        assert!(error.contains("same variables"), "{error}");
    }
}
