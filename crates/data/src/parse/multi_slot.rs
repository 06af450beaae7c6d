//! Paddle's lines: for each slot in order a count and as many values, with spaces between them.

use std::sync::Arc;

use super::format::MultiSlotOptions;
use super::number;
use super::{line_at, plain, shown, skip_spaces, token_at};
use crate::{CONTENT, INS_ID, Kind, Samples, Slot, Values};

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
