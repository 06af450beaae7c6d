//! Criteo's raw lines, with PaddleRec's conversion.
//!
//! A line is a label, 13 numbers and 26 words with tabs between them; numbers and words may be
//! missing. PaddleRec moves and scales the numbers by fixed tables, in double precision, and takes
//! Python's hash of `column number + word` modulo the size of the table as a word's id.

use std::sync::Arc;

use super::format::{CriteoOptions, names};
use super::plain_lines::{LANES, Lines, every_lane};
use super::python_hash::{HASHES, Spread};
use super::{line_at, number, shown};
use crate::{Column, Error, Kind, Result, Samples, Slot, Values};

/// How many numbers and words a line has.
const NUMBERS: usize = 13;
const WORDS: usize = 26;
/// The field of the first word, counted from 0, which its hash starts with.
const FIRST_WORD: usize = 1 + NUMBERS;
/// PaddleRec's least value of each number, and the span of its values.
const LEAST: [f64; NUMBERS] = [0., -3., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.];
const SPAN: [f64; NUMBERS] =
    [20., 603., 100., 50., 64000., 500., 100., 50., 500., 10., 10., 10., 50.];
/// How many fields a line has.
const FIELDS: usize = FIRST_WORD + WORDS;
/// The first whole number that a `f64` may not hold.
const EXACT: u64 = 1 << 53;
/// The longest word, far above the eight digits of Criteo's own.
const MAX_WORD: usize = 64;
/// The words of a line, with room for whole groups of hashes.
const WORD_LANES: usize = WORDS.next_multiple_of(HASHES);
/// Stands for a missing word; no word is like that.
const MISSING: u64 = 0;
/// A byte eight times.
const fn eight(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

#[derive(Clone, Debug)]
pub(super) struct Criteo {
    slots: Arc<[Slot]>,
    /// Where the values of each slot come from.
    parts: Arc<[Part]>,
    spread: Spread,
    /// The ids of missing words.
    missing: [u64; WORDS],
    /// What the hash of each word starts with, as [`Spread::ids_of_ten`] takes it.
    prefixes: [u64; WORD_LANES],
}

/// A line by its fields: where each ends, in the text of several lines.
struct Line<'a> {
    text: &'a [u8],
    start: usize,
    ends: [usize; FIELDS],
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
        let parts = parts.collect::<Result<Vec<_>>>()?.into();
        let spread = Spread::over(options.hash_space);
        let missing = std::array::from_fn(|index| spread.id(&digits(index)));
        let prefixes = std::array::from_fn(|index| u16::from_le_bytes(digits(index)).into());
        Ok(Criteo { slots: slots.into(), parts, spread, missing, prefixes })
    }

    /// Appends the values of lines whose numbers are whole and whose words have eight characters or
    /// none, as in Criteo's own. `None`, and nothing is appended, if one is different: all other
    /// lines, right or wrong, are for [`Criteo::sample`].
    #[inline(always)]
    pub(super) fn plain_lines(
        &self,
        text: &[u8],
        lines: &Lines,
        columns: &mut [Column],
    ) -> Option<()> {
        let (mut labels, mut at) = ([0; LANES], lines.starts);
        every_lane!(LANE => {
            let &[digit @ (b'0' | b'1'), b'\t'] = text.get(at[LANE]..)?.first_chunk()? else {
                return None;
            };
            (labels[LANE], at[LANE]) = (u64::from(digit - b'0'), at[LANE] + 2);
        });
        let (numbers, at) = plain_numbers(text, at)?;
        let ids = self.plain_ids(text, at, lines)?;
        for (column, part) in columns.iter_mut().zip(self.parts.iter()) {
            match (part, column.values_mut()) {
                (Part::Label, Values::Ids(values)) => values.extend_from_slice(&labels),
                (Part::Label, Values::Floats(values)) => {
                    values.extend_from_slice(&labels.map(|label| label as f32));
                }
                (Part::Numbers, Values::Floats(values)) => {
                    values.extend_from_slice(numbers.as_flattened());
                }
                (&Part::Word(index), Values::Ids(values)) => {
                    values.extend_from_slice(&[
                        ids[0][index],
                        ids[1][index],
                        ids[2][index],
                        ids[3][index],
                    ]);
                }
                _ => unreachable!("the kinds of slots were compared with their parts"),
            }
        }
        Some(())
    }

    /// The ids of words of eight characters or none.
    #[inline(always)]
    fn plain_ids(
        &self,
        text: &[u8],
        mut at: [usize; LANES],
        lines: &Lines,
    ) -> Option<[[u64; WORD_LANES]; LANES]> {
        let mut words = [[eight(b'0'); WORD_LANES]; LANES];
        let mut wrong = false;
        #[expect(clippy::needless_range_loop, reason = "the number of a word of every line")]
        for index in 0..WORDS {
            // The last one ends with its line.
            let last = index + 1 == WORDS;
            every_lane!(LANE => {
                let word = text.get(at[LANE]..at[LANE] + 9)?;
                let (missing, given) = match last {
                    true => (at[LANE] == lines.ends[LANE], at[LANE] + 8 == lines.ends[LANE]),
                    false => (word[0] == b'\t', word[8] == b'\t'),
                };
                wrong |= !(missing | given);
                let bytes = u64::from_le_bytes(*word.first_chunk()?);
                words[LANE][index] = if missing { MISSING } else { bytes };
                at[LANE] += if missing { 1 } else { 9 };
            });
        }
        let mut others = 0;
        for &word in words.as_flattened() {
            others |= if word == MISSING { 0 } else { not_plain(word) };
        }
        if wrong || others != 0 {
            return None;
        }
        let mut ids = [[0; WORD_LANES]; LANES];
        for (words, ids) in words.iter().zip(&mut ids) {
            *ids = self.spread.ids_of_ten(&self.prefixes, words);
            for ((id, &word), &missing) in ids.iter_mut().zip(words).zip(&self.missing) {
                *id = if word == MISSING { missing } else { *id };
            }
        }
        Some(ids)
    }

    pub(super) fn sample(
        &mut self,
        text: &[u8],
        at: usize,
        out: &mut Samples,
    ) -> std::result::Result<usize, String> {
        let whole = line_at(text, at);
        let line = Line::new(text, at, whole.strip_suffix(b"\r").unwrap_or(whole))?;
        let columns = out.columns_mut().iter_mut();
        for (column, (part, slot)) in columns.zip(self.parts.iter().zip(self.slots.iter())) {
            match (part, column.values_mut()) {
                (Part::Label, Values::Ids(values)) => values.push(line.label(slot)?),
                (Part::Label, Values::Floats(values)) => values.push(line.label(slot)? as f32),
                (Part::Numbers, Values::Floats(values)) => {
                    for index in 0..NUMBERS {
                        values.push(line.number(index, slot)?);
                    }
                }
                (&Part::Word(index), Values::Ids(values)) => {
                    values.push(self.id(index, line.field(FIRST_WORD + index), slot)?);
                }
                _ => unreachable!("the kinds of slots were compared with their parts"),
            }
        }
        Ok((at + whole.len() + 1).min(text.len()))
    }

    #[inline(always)]
    fn id(&self, index: usize, word: &[u8], slot: &Slot) -> std::result::Result<u64, String> {
        if let Ok(bytes) = <[u8; 8]>::try_from(word) {
            let bytes = u64::from_le_bytes(bytes);
            if not_plain(bytes) == 0 {
                return Ok(self.spread.id_of_ten(digits(index), bytes));
            }
        }
        if word.is_empty() {
            return Ok(self.missing[index]);
        }
        self.unusual_id(index, word, slot)
    }

    #[inline(never)]
    fn unusual_id(
        &self,
        index: usize,
        word: &[u8],
        slot: &Slot,
    ) -> std::result::Result<u64, String> {
        if word.len() > MAX_WORD || !word.iter().all(u8::is_ascii_graphic) {
            return Err(format!(
                "slot `{}`: {} is not a word of at most {MAX_WORD} plain characters",
                slot.name,
                shown(word)
            ));
        }
        Ok(self.spread.id(&[&digits(index), word].concat()))
    }
}

/// The scaled numbers of lines, if all are short and whole, and where the words start; missing ones
/// are zero.
#[inline(always)]
fn plain_numbers(
    text: &[u8],
    mut at: [usize; LANES],
) -> Option<([[f32; NUMBERS]; LANES], [usize; LANES])> {
    let (mut values, mut wrong) = ([[0.0; NUMBERS]; LANES], 0);
    for index in 0..NUMBERS {
        every_lane!(LANE => {
            let (value, end) = number::short_number(text, at[LANE])?;
            wrong |= *text.get(end)? ^ b'\t';
            // So that it is zero when it has been moved.
            values[LANE][index] = if end == at[LANE] { LEAST[index] } else { value as f64 };
            at[LANE] = end + 1;
        });
    }
    let mut scaled = [[0.0; NUMBERS]; LANES];
    for (values, scaled) in values.iter().zip(&mut scaled) {
        for (((scaled, value), least), span) in scaled.iter_mut().zip(values).zip(LEAST).zip(SPAN) {
            *scaled = ((value - least) / span) as f32;
        }
    }
    (wrong == 0).then_some((scaled, at))
}

/// The number of a word's field, which its hash starts with.
#[inline(always)]
fn digits(index: usize) -> [u8; 2] {
    let field = (FIRST_WORD + index) as u8;
    [b'0' + field / 10, b'0' + field % 10]
}

/// Zero if all of eight bytes are visible ASCII characters.
#[inline(always)]
fn not_plain(bytes: u64) -> u64 {
    // The highest bits of bytes below `!`, if there are any, and of zeros where `DEL` was.
    let below = bytes.wrapping_sub(eight(b'!')) & !bytes;
    let delete = bytes ^ eight(0x7f);
    let delete = delete.wrapping_sub(eight(1)) & !delete;
    (below | delete | bytes) & eight(0x80)
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

impl<'a> Line<'a> {
    /// Finds the fields of a line that starts at `start`.
    fn new(text: &'a [u8], start: usize, line: &[u8]) -> std::result::Result<Line<'a>, String> {
        let (mut ends, mut count) = ([0; FIELDS], 0);
        let mut end_field = |end: usize| {
            if let Some(field) = ends.get_mut(count) {
                *field = start + end;
            }
            count += 1;
        };
        // Fields are short: looking for each tab anew would take longer than eight bytes at a time.
        let (chunks, rest) = line.as_chunks();
        for (index, &chunk) in chunks.iter().enumerate() {
            let bytes = u64::from_le_bytes(chunk) ^ eight(b'\t');
            // The highest bit of every byte that is a tab.
            let low = (bytes & eight(0x7f)) + eight(0x7f);
            let mut tabs = !(low | bytes | eight(0x7f));
            while tabs != 0 {
                end_field(8 * index + tabs.trailing_zeros() as usize / 8);
                tabs &= tabs - 1;
            }
        }
        for (index, _) in rest.iter().enumerate().filter(|(_, byte)| **byte == b'\t') {
            end_field(8 * chunks.len() + index);
        }
        end_field(line.len());
        match count == FIELDS {
            true => Ok(Line { text, start, ends }),
            false => Err(format!(
                "the line has {count} fields, not {FIELDS}: a label, {NUMBERS} numbers and {WORDS} \
                 words, with tabs between them"
            )),
        }
    }

    #[inline(always)]
    fn field(&self, index: usize) -> &'a [u8] {
        let start = if index == 0 { self.start } else { self.ends[index - 1] + 1 };
        &self.text[start..self.ends[index]]
    }

    fn label(&self, slot: &Slot) -> std::result::Result<u64, String> {
        match self.field(0) {
            b"0" => Ok(0),
            b"1" => Ok(1),
            other => {
                Err(format!("slot `{}`: the label {} is neither 0 nor 1", slot.name, shown(other)))
            }
        }
    }

    /// A number as PaddleRec's readers scale it; a missing one is zero.
    #[inline(always)]
    fn number(&self, index: usize, slot: &Slot) -> std::result::Result<f32, String> {
        let (start, end) = (self.ends[index] + 1, self.ends[index + 1]);
        if start == end {
            return Ok(0.0);
        }
        let value = match number::id(self.text, start) {
            // Whole numbers below 2^53 are exact; that there is a minus zero is left to others.
            Some((value @ 0..EXACT, found)) if found == end && self.text[start] != b'-' => {
                value as f64
            }
            _ => any_number(&self.text[start..end]),
        };
        let scaled = ((value - LEAST[index]) / SPAN[index]) as f32;
        match scaled.is_finite() {
            true => Ok(scaled),
            false => Err(format!(
                "slot `{}`: number {} of the line, {}, is not a finite number",
                slot.name,
                index + 1,
                shown(self.field(index + 1))
            )),
        }
    }
}

/// A number that is not a whole one, or not a number.
#[inline(never)]
fn any_number(field: &[u8]) -> f64 {
    std::str::from_utf8(field).ok().and_then(|field| field.parse().ok()).unwrap_or(f64::NAN)
}
