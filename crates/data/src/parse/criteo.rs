//! Criteo's raw lines, with PaddleRec's conversion.
//!
//! A line is a label, 13 numbers and 26 words with tabs between them; numbers and words may be
//! missing. PaddleRec moves and scales the numbers by fixed tables, in double precision, and takes
//! Python's hash of `column number + word` modulo the size of the table as a word's id.

use std::sync::Arc;

use super::format::{CriteoOptions, names};
use super::{line_at, number, python_hash, shown};
use crate::{Error, Kind, Result, Samples, Slot, Values};

/// How many numbers and words a line has.
const NUMBERS: usize = 13;
const WORDS: usize = 26;
/// The field of the first word, counted from 0, which its hash starts with.
const FIRST_WORD: usize = 1 + NUMBERS;
/// PaddleRec's least value of each number, and the span of its values.
const LEAST: [f64; NUMBERS] = [0., -3., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.];
const SPAN: [f64; NUMBERS] =
    [20., 603., 100., 50., 64000., 500., 100., 50., 500., 10., 10., 10., 50.];
/// The longest word, far above the eight digits of Criteo's own: two digits go before it.
const MAX_WORD: usize = python_hash::MAX_WORD - 2;
const TABS: u64 = 0x0909_0909_0909_0909;

#[derive(Clone, Debug)]
pub(super) struct Criteo {
    slots: Arc<[Slot]>,
    /// Where the values of each slot come from.
    parts: Arc<[Part]>,
    hash_space: u64,
}

/// What of a line a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Label,
    Numbers,
    /// The word of this index.
    Word(usize),
}

impl Criteo {
    pub(super) fn new(options: &CriteoOptions, slots: &[Slot]) -> Result<Criteo> {
        if options.hash_space == 0 {
            return Err(Error::Settings(
                "the hash space of Criteo's words is 0: it is the number of ids, at least 1".into(),
            ));
        }
        let names = names(&options.tokens, slots)?;
        let parts = slots.iter().zip(&names).map(|(slot, name)| part(slot, name));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        Ok(Criteo { slots: slots.into(), parts: parts.into(), hash_space: options.hash_space })
    }

    pub(super) fn sample(
        &mut self,
        text: &[u8],
        at: usize,
        out: &mut Samples,
    ) -> std::result::Result<usize, String> {
        let line = line_at(text, at);
        let end = (at + line.len() + 1).min(text.len());
        let fields = fields(line.strip_suffix(b"\r").unwrap_or(line))?;
        let columns = out.columns_mut().iter_mut();
        for ((column, part), slot) in columns.zip(self.parts.iter()).zip(self.slots.iter()) {
            match (part, column.values_mut()) {
                (Part::Label, Values::Ids(values)) => values.push(label(fields[0], slot)?),
                (Part::Label, Values::Floats(values)) => {
                    values.push(label(fields[0], slot)? as f32);
                }
                (Part::Numbers, Values::Floats(values)) => {
                    for (index, field) in fields[1..FIRST_WORD].iter().enumerate() {
                        values.push(scaled(index, field, slot)?);
                    }
                }
                (Part::Word(index), Values::Ids(values)) => {
                    values.push(self.id(*index, fields[FIRST_WORD + index], slot)?);
                }
                _ => unreachable!("the kinds of slots were compared with their parts"),
            }
        }
        Ok(end)
    }

    fn id(&self, index: usize, word: &[u8], slot: &Slot) -> std::result::Result<u64, String> {
        if word.len() > MAX_WORD || !word.iter().all(u8::is_ascii_graphic) {
            return Err(format!(
                "slot `{}`: {} is not a word of at most {MAX_WORD} plain characters",
                slot.name,
                shown(word)
            ));
        }
        let mut buffer = [0; python_hash::MAX_WORD];
        let column = FIRST_WORD + index;
        (buffer[0], buffer[1]) = (b'0' + (column / 10) as u8, b'0' + (column % 10) as u8);
        buffer[2..word.len() + 2].copy_from_slice(word);
        Ok(python_hash::modulo(&buffer, word.len() + 2, self.hash_space))
    }
}

fn part(slot: &Slot, name: &str) -> Result<Part> {
    let (part, kinds, width) = match (name, name.parse::<usize>()) {
        ("click" | "label", _) => (Part::Label, &[Kind::Ids, Kind::Floats][..], 1),
        ("dense_feature" | "dense_input", _) => (Part::Numbers, &[Kind::Floats][..], NUMBERS),
        (_, Ok(word @ 1..=WORDS)) => (Part::Word(word - 1), &[Kind::Ids][..], 1),
        _ => {
            return Err(Error::Settings(format!(
                "slot `{}` is `{name}` in the data, but Criteo's lines hold `click`, \
                 `dense_feature` and the words `1` to `26`",
                slot.name
            )));
        }
    };
    if !kinds.contains(&slot.kind) || slot.width().is_some_and(|found| found != width) {
        let (kind, plural) = (kinds[0], if width == 1 { "" } else { "s" });
        let kind = if kind == Kind::Ids { "id" } else { "number" };
        return Err(Error::Settings(format!(
            "slot `{}` is `{name}` in Criteo's lines, which is {width} {kind}{plural}: give the \
             input that type and shape",
            slot.name
        )));
    }
    Ok(part)
}

/// The fields of a line, all of them.
fn fields(line: &[u8]) -> std::result::Result<[&[u8]; FIRST_WORD + WORDS], String> {
    let mut fields = [&line[..0]; FIRST_WORD + WORDS];
    let (mut start, mut count) = (0, 0);
    let mut end_field = |end: usize| {
        if let Some(field) = fields.get_mut(count) {
            *field = &line[start..end];
        }
        start = end + 1;
        count += 1;
    };
    // Fields are short: looking for each tab anew would take longer than eight bytes at a time.
    let (chunks, rest) = line.as_chunks();
    for (index, &chunk) in chunks.iter().enumerate() {
        let bytes = u64::from_le_bytes(chunk) ^ TABS;
        let low = bytes & 0x7f7f_7f7f_7f7f_7f7f;
        // The highest bit of every byte that is a tab.
        let mut tabs = !(low + 0x7f7f_7f7f_7f7f_7f7f | bytes | 0x7f7f_7f7f_7f7f_7f7f);
        while tabs != 0 {
            end_field(8 * index + tabs.trailing_zeros() as usize / 8);
            tabs &= tabs - 1;
        }
    }
    for (index, _) in rest.iter().enumerate().filter(|(_, byte)| **byte == b'\t') {
        end_field(8 * chunks.len() + index);
    }
    end_field(line.len());
    match count == fields.len() {
        true => Ok(fields),
        false => Err(format!(
            "the line has {count} fields, not {}: a label, {NUMBERS} numbers and {WORDS} words, \
             with tabs between them",
            fields.len()
        )),
    }
}

fn label(field: &[u8], slot: &Slot) -> std::result::Result<u64, String> {
    match field {
        b"0" => Ok(0),
        b"1" => Ok(1),
        _ => Err(format!("slot `{}`: the label {} is neither 0 nor 1", slot.name, shown(field))),
    }
}

/// A number as PaddleRec's readers scale it; a missing one is zero.
fn scaled(index: usize, field: &[u8], slot: &Slot) -> std::result::Result<f32, String> {
    if field.is_empty() {
        return Ok(0.0);
    }
    let whole = number::id(field, 0).map(|(value, _)| value as i64);
    let value = match whole {
        // Exact, as the difference is.
        Some(value) if value.unsigned_abs() < 1 << 50 => Some(value as f64),
        _ => std::str::from_utf8(field).ok().and_then(|field| field.parse::<f64>().ok()),
    };
    let value = value.map(|value| ((value - LEAST[index]) / SPAN[index]) as f32);
    value.filter(|value| value.is_finite()).ok_or_else(|| {
        format!(
            "slot `{}`: number {} of the line, {}, is not a finite number",
            slot.name,
            index + 1,
            shown(field)
        )
    })
}
