//! Paddle's lines: for each slot in order a count and as many values, with spaces between them.

use std::sync::Arc;

use super::format::MultiSlotOptions;
use super::number;
use super::plain_lines::{LANES, Lines, every_lane};
use super::{line_at, plain, shown, skip_spaces, token_at};
use crate::{CONTENT, Column, INS_ID, Kind, Samples, Slot, Values};

#[derive(Clone, Debug)]
pub(super) struct MultiSlot {
    options: MultiSlotOptions,
    slots: Arc<[Slot]>,
    /// How many values each slot must have, where that is known. Slots that keep text follow.
    widths: Arc<[Option<u64>]>,
    /// The slots that keep the name and the content.
    texts: [Option<usize>; 2],
    /// Whether a line is a batch.
    batched: bool,
}

impl MultiSlot {
    pub(super) fn new(options: MultiSlotOptions, slots: &[Slot]) -> MultiSlot {
        let texts = [INS_ID, CONTENT].map(|name| slots.iter().position(|slot| slot.name == name));
        let values = &slots[..slots.len() - texts.iter().flatten().count()];
        let widths = values.iter().map(|slot| slot.width().map(|width| width as u64)).collect();
        let batched = slots.iter().any(|slot| slot.batched);
        MultiSlot { options, slots: slots.into(), widths, texts, batched }
    }

    /// Whether [`MultiSlot::plain_lines`] can read its lines.
    pub(super) fn has_plain_lines(&self) -> bool {
        let is_plain = !self.options.parse_ins_id && !self.options.parse_content;
        is_plain && !self.batched && self.texts == [None; 2]
    }

    /// Appends the values of lines as programs write them, with one space between tokens. `None` if
    /// one is not, and some values were appended: all other lines, right or wrong, are for
    /// [`MultiSlot::sample`].
    #[inline(always)]
    pub(super) fn plain_lines(
        &self,
        text: &[u8],
        lines: &Lines,
        columns: &mut [Column],
        counts: &mut [[u32; LANES]],
    ) -> Option<()> {
        let mut at = lines.starts;
        let slots = columns.iter_mut().zip(self.widths.iter()).zip(counts).enumerate();
        for (index, ((column, &width), counts)) in slots {
            let mut found = [1; LANES];
            if index > 0 && every_one(text, &at) {
                at = at.map(|at| at + 2);
            } else {
                every_lane!(LANE => {
                    // Every token but the first has a space before it.
                    let start = if index == 0 { at[LANE] } else { next(text, at[LANE])? };
                    (found[LANE], at[LANE]) = plain_count(text, start)?;
                });
            }
            if let Some(width) = width
                && found.iter().any(|&count| u64::from(count) != width)
            {
                return None;
            }
            *counts = found;
            at = match column.values_mut() {
                Values::Ids(values) => plain_values(text, at, found, values)?,
                Values::Floats(values) => plain_values(text, at, found, values)?,
            };
        }
        lines.all_end(text, &at).then_some(())
    }

    pub(super) fn sample(
        &mut self,
        text: &[u8],
        start: usize,
        out: &mut Samples,
    ) -> std::result::Result<usize, String> {
        let mut at = start;
        if self.options.parse_ins_id {
            at = self.text_column(text, at, "name (ins_id)", self.texts[0], out)?;
        }
        if self.options.parse_content {
            at = self.text_column(text, at, "content", self.texts[1], out)?;
        }
        let columns = out.columns_mut().iter_mut().zip(self.widths.iter());
        for (index, (column, &width)) in columns.enumerate() {
            at = skip_spaces(text, at);
            let count = match number::short_count(text, at) {
                Some(count) => {
                    at += 1;
                    count
                }
                None => match number::id(text, at) {
                    Some((count @ 1.., end)) => {
                        at = end;
                        count
                    }
                    _ => {
                        return Err(self.wrong_count(
                            index,
                            line_at(text, start),
                            token_at(text, at),
                        ));
                    }
                },
            };
            if let Some(width) = width
                && count != width
            {
                let name = &self.slots[index].name;
                return Err(format!("slot `{name}` has {count} values, not {width}"));
            }
            let ended = match column.values_mut() {
                Values::Ids(values) => repeat(text, at, count, number::id, values),
                Values::Floats(values) => repeat(text, at, count, number::float, values),
            };
            at = match ended {
                Ok(end) => end,
                Err(wrong) => {
                    return Err(wrong_value(&self.slots[index], count, token_at(text, wrong)));
                }
            };
        }
        at = skip_spaces(text, at);
        match text.get(at) {
            None => self.checked(at, out),
            Some(b'\n') => self.checked(at + 1, out),
            Some(_) => Err(format!(
                "after the last slot, `{}`, there is more, from {} on: are there slots in the data \
                 that are not in the list of inputs?",
                self.slots.last().map_or("", |slot| &slot.name),
                shown(token_at(text, at))
            )),
        }
    }

    /// Passes over `1 WORD`, which is kept where a slot is for it; returns where the word ended.
    fn text_column(
        &self,
        text: &[u8],
        at: usize,
        what: &str,
        slot: Option<usize>,
        out: &mut Samples,
    ) -> std::result::Result<usize, String> {
        let end = text_column(text, at, what)?;
        if let Some(slot) = slot
            && let Values::Ids(bytes) = out.columns_mut()[slot].values_mut()
        {
            let word = &text[at..end];
            let start =
                word.iter().rposition(|&byte| number::is_space(byte)).map_or(0, |at| at + 1);
            bytes.extend(word[start..].iter().map(|&byte| u64::from(byte)));
        }
        Ok(end)
    }

    /// Returns `end`, if the values of the line make as many samples in every slot.
    #[inline(always)]
    fn checked(&self, end: usize, out: &Samples) -> std::result::Result<usize, String> {
        if self.batched { self.samples(out).map(|()| end) } else { Ok(end) }
    }

    #[cold]
    fn samples(&self, out: &Samples) -> std::result::Result<(), String> {
        let mut first = None;
        for (slot, column) in self.slots.iter().zip(out.columns()).take(self.widths.len()) {
            let values = column.unfinished(out.len());
            let samples = slot.samples_of(values).ok_or_else(|| {
                let shape = slot.shape.as_deref().unwrap_or_default();
                format!("slot `{}`: {values} values are not whole samples of {shape:?}", slot.name)
            })?;
            let (other, wanted) = *first.get_or_insert((&slot.name, samples));
            if samples != wanted {
                return Err(format!(
                    "the line is a batch (`input_type` 1) of {wanted} samples by slot `{other}`, \
                     but of {samples} by slot `{}`",
                    slot.name
                ));
            }
        }
        Ok(())
    }

    /// The words of Paddle, which people search for.
    #[cold]
    fn wrong_count(&self, index: usize, line: &[u8], count: &[u8]) -> String {
        format!(
            "Got unexpected input, maybe something wrong with it.\n\
             ----------------------\n\
             The Origin Input Data:\n{}\n\
             ----------------------\n\
             Some Possible Errors:\n\
             1. The number of ids can not be zero, you need padding.\n\
             2. The input data contains unresolvable characters.\n\
             3. We detect the slot {index}'s feasign number is {} which is illegal (slot `{}`)",
            plain(line),
            if count.is_empty() { "missing".to_owned() } else { plain(count) },
            self.slots[index].name
        )
    }
}

/// Where a token starts whose space is at `at`.
#[inline(always)]
fn next(text: &[u8], at: usize) -> Option<usize> {
    (text.get(at) == Some(&b' ')).then_some(at + 1)
}

/// Whether every line has a count of one between spaces, as most slots have.
#[inline(always)]
fn every_one(text: &[u8], at: &[usize; LANES]) -> bool {
    const ONE: u32 = u32::from_le_bytes([b' ', b'1', b' ', 0]);
    let mut wrong = 0;
    every_lane!(LANE => {
        match text.get(at[LANE]..at[LANE] + 4).and_then(<[u8]>::first_chunk) {
            Some(&bytes) => wrong |= (u32::from_le_bytes(bytes) ^ ONE) << 8,
            None => return false,
        }
    });
    wrong == 0
}

/// How many values a slot has, and where the count ends.
#[inline(always)]
fn plain_count(text: &[u8], at: usize) -> Option<(u32, usize)> {
    if let Some(count) = number::short_count(text, at) {
        return Some((count as u32, at + 1));
    }
    let (count @ 1.., end) = number::id(text, at)? else { return None };
    // No line is so long.
    Some((u32::try_from(count).ok().filter(|&count| (count as usize) < text.len())?, end))
}

/// A value that a short way to read is known for.
trait Plain: Copy + Default {
    /// The value at `at`, and where it ends.
    fn read(text: &[u8], at: usize) -> Option<(Self, usize)>;
}

impl Plain for u64 {
    #[inline(always)]
    fn read(text: &[u8], at: usize) -> Option<(u64, usize)> {
        number::plain_id(text, at)
    }
}

impl Plain for f32 {
    #[inline(always)]
    fn read(text: &[u8], at: usize) -> Option<(f32, usize)> {
        number::plain_float(text, at)
    }
}

/// Appends the values of every line; returns where they end.
#[inline(always)]
fn plain_values<T: Plain>(
    text: &[u8],
    mut at: [usize; LANES],
    counts: [u32; LANES],
    values: &mut Vec<T>,
) -> Option<[usize; LANES]> {
    if counts == [1; LANES] {
        let mut row = [T::default(); LANES];
        every_lane!(LANE => {
            (row[LANE], at[LANE]) = T::read(text, next(text, at[LANE])?)?;
        });
        values.extend_from_slice(&row);
        return Some(at);
    }
    if counts != [counts[0]; LANES] {
        for (at, &count) in at.iter_mut().zip(&counts) {
            for _ in 0..count {
                let (value, end) = T::read(text, next(text, *at)?)?;
                values.push(value);
                *at = end;
            }
        }
        return Some(at);
    }
    // One value of each line in turn: a processor works on all of them at once.
    let (count, start) = (counts[0] as usize, values.len());
    values.resize(start + LANES * count, T::default());
    let (first, rest) = values[start..].split_at_mut(count);
    let (second, rest) = rest.split_at_mut(count);
    let (third, fourth) = rest.split_at_mut(count);
    let rows = first.iter_mut().zip(second).zip(third).zip(fourth);
    for (((first, second), third), fourth) in rows {
        let row = [first, second, third, fourth];
        every_lane!(LANE => {
            (*row[LANE], at[LANE]) = T::read(text, next(text, at[LANE])?)?;
        });
    }
    Some(at)
}

/// Appends `count` values; returns where the last one ended, or where the first wrong one starts.
#[inline(always)]
fn repeat<T>(
    text: &[u8],
    mut at: usize,
    count: u64,
    read: impl Fn(&[u8], usize) -> Option<(T, usize)>,
    values: &mut Vec<T>,
) -> std::result::Result<usize, usize> {
    for _ in 0..count {
        at = skip_spaces(text, at);
        let (value, end) = read(text, at).ok_or(at)?;
        values.push(value);
        at = end;
    }
    Ok(at)
}

/// Passes over `1 WORD`; returns where the word ended.
fn text_column(text: &[u8], at: usize, what: &str) -> std::result::Result<usize, String> {
    let at = skip_spaces(text, at);
    let Some((1, end)) = number::id(text, at) else {
        return Err(format!(
            "the {what} of the sample must stand behind a count of 1, not {}",
            shown(token_at(text, at))
        ));
    };
    let at = skip_spaces(text, end);
    match token_at(text, at).len() {
        0 => Err(format!("the {what} of the sample is missing")),
        length => Ok(at + length),
    }
}

#[cold]
fn wrong_value(slot: &Slot, count: u64, value: &[u8]) -> String {
    let name = &slot.name;
    if value.is_empty() {
        return format!("slot `{name}`: the line ends before its {count} values");
    }
    match slot.kind {
        Kind::Ids => format!("slot `{name}`: {} is not a whole number of 64 bits", shown(value)),
        Kind::Floats => format!("slot `{name}`: {} is not a finite number", shown(value)),
    }
}
