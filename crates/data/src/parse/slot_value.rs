//! PaddleRec's lines: `name:value` tokens in any order, with spaces between them.
//!
//! A name that is repeated appends; names of no slot are passed over; a slot that a line does not
//! name is padded, but a line must name one, and those that are required. Lines of a file mostly have
//! the same names in the same order, so a parser remembers the names it met, one after the other,
//! and first compares with the one that is due.

use std::sync::Arc;

use super::format::{SlotValueOptions, names};
use super::named::{MAX_STRANGERS, Met, missing_label, no_slot};
use super::number;
use super::{line_at, shown, token_at};
use crate::{Column, Error, Result, Samples, Slot, Values};

/// The index of names that are passed over.
const NO_SLOT: usize = usize::MAX;
/// How many names are remembered beyond two for each slot; lines that need more have no order that
/// would be worth it.
const SPARE_STEPS: usize = 256;
/// How far ahead a name is looked for.
const LOOK_AHEAD: usize = 64;
/// How often a route may become too long before there is none any more.
const MAX_ROUTES: u32 = 4;

#[derive(Clone, Debug)]
pub(super) struct SlotValue {
    slots: Arc<[Slot]>,
    /// How many values each slot must have, where that is known.
    widths: Arc<[Option<usize>]>,
    /// Names and the indices of their slots, by name.
    names: Arc<[(Box<[u8]>, usize)]>,
    padding: u32,
    /// Whether every line must name a slot.
    required: Arc<[bool]>,
    /// Which names the lines of this file had. A name is looked up when it is first met, so that
    /// this costs nothing for those that come in order.
    met: Met,
    /// Whole lines so far.
    lines: u64,
    /// The names of earlier lines, in their order.
    route: Vec<Step>,
    /// How many routes became too long.
    routes: u32,
}

/// What a line did not name.
#[derive(Default)]
struct Unnamed {
    slots: usize,
    /// A slot that it had to name.
    required: Option<usize>,
}

/// A name that is expected next, with its colon.
#[derive(Clone, Debug)]
struct Step {
    /// Its first 16 bytes, and which of them count.
    first: u128,
    mask: u128,
    len: usize,
    slot: usize,
    /// The name, to compare what is longer than 16 bytes.
    name: Box<[u8]>,
}

impl SlotValue {
    pub(super) fn new(options: &SlotValueOptions, slots: &[Slot]) -> Result<SlotValue> {
        let names = names(&options.tokens, slots)?;
        let wrong = |name: &String| name.is_empty() || name.contains([':', ' ', '\t', '\r', '\n']);
        if let Some(name) = names.iter().find(|name| wrong(name)) {
            return Err(Error::Settings(format!(
                "`{name}` cannot stand before the colon of a token: use a name without spaces and \
                 colons"
            )));
        }
        let indices = 0..slots.len();
        let mut names: Vec<_> = names
            .into_iter()
            .map(|name| name.into_bytes().into_boxed_slice())
            .zip(indices)
            .collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::Settings(format!(
                "two slots have the name {} in the data: values belong to one slot",
                shown(&twice[0].0)
            )));
        }
        let widths = slots.iter().map(Slot::width).collect();
        let required = slots.iter().map(|slot| options.required.contains(&slot.name)).collect();
        let met = Met { slots: vec![false; slots.len()], strangers: Vec::new() };
        let (slots, names) = (slots.into(), names.into());
        Ok(SlotValue {
            slots,
            widths,
            names,
            padding: options.padding,
            required,
            met,
            lines: 0,
            route: Vec::new(),
            routes: 0,
        })
    }

    pub(super) fn sample(
        &mut self,
        text: &[u8],
        start: usize,
        out: &mut Samples,
    ) -> std::result::Result<usize, String> {
        let row = out.len();
        let columns = out.columns_mut();
        let (mut at, mut step) = (start, 0);
        while let Some(&byte) = text.get(at) {
            if number::is_space(byte) {
                at += 1;
                if byte == b'\n' {
                    break;
                }
                continue;
            }
            let (slot, value) = match self.route.get(step) {
                Some(next) if next.is_at(text, at) => (next.slot, at + next.len),
                _ => self.find(text, at, &mut step)?,
            };
            step += 1;
            let Some(column) = columns.get_mut(slot) else {
                at = value + token_at(text, value).len();
                continue;
            };
            at = match push(column, text, value) {
                // Most often there is one space, and then a token.
                Some(end) => end + usize::from(text.get(end) == Some(&b' ')),
                None => return Err(self.wrong_value(slot, token_at(text, value))),
            };
        }
        if step == 0 {
            return Err("the line is empty".to_owned());
        }
        let unnamed = self.finish(row, columns)?;
        if let Some(slot) = unnamed.required {
            return Err(self.without_label(slot, line_at(text, start)));
        }
        if unnamed.slots == self.slots.len() {
            return Err(no_slot(line_at(text, start), &self.names));
        }
        self.lines += 1;
        Ok(at)
    }

    /// Pads what the line did not name, and compares the numbers of values with the shapes.
    #[inline(always)]
    fn finish(
        &mut self,
        row: usize,
        columns: &mut [Column],
    ) -> std::result::Result<Unnamed, String> {
        let mut unnamed = Unnamed::default();
        for (index, (&width, column)) in self.widths.iter().zip(columns).enumerate() {
            let found = column.unfinished(row);
            if width == Some(found) || (width.is_none() && found > 0) {
                continue;
            }
            if found > 0 {
                let (name, width) = (&self.slots[index].name, width.unwrap_or(1));
                return Err(format!("slot `{name}` has {found} values, not {width}"));
            }
            unnamed.slots += 1;
            if self.required[index] {
                unnamed.required = Some(index);
            }
            let count = width.unwrap_or(1);
            match column.values_mut() {
                Values::Ids(to) => to.extend(std::iter::repeat_n(u64::from(self.padding), count)),
                Values::Floats(to) => to.extend(std::iter::repeat_n(self.padding as f32, count)),
            }
        }
        Ok(unnamed)
    }

    /// Which names the lines had so far; none where there was no line.
    pub(super) fn met(&self) -> Option<&Met> {
        (self.lines > 0).then_some(&self.met)
    }

    /// What lines call a slot.
    fn token(&self, slot: usize) -> String {
        let of_slot = self.names.iter().find(|(_, index)| *index == slot);
        of_slot.map_or_else(String::new, |(name, _)| super::plain(name))
    }

    #[cold]
    fn without_label(&self, slot: usize, line: &[u8]) -> String {
        missing_label(&self.slots[slot].name, &self.token(slot), line, &self.names)
    }

    /// The slot and the value of a token whose name is not the one that was due; `step` becomes the
    /// place of the name in the route.
    #[inline(never)]
    fn find(
        &mut self,
        text: &[u8],
        at: usize,
        step: &mut usize,
    ) -> std::result::Result<(usize, usize), String> {
        let token = token_at(text, at);
        let Some(colon) = token.iter().position(|&byte| byte == b':') else {
            return Err(format!("{} has no colon: tokens are `slot:value`", shown(token)));
        };
        // Some names were left out, or the name has never been here.
        let mut later = self.route.iter().skip(*step).take(LOOK_AHEAD);
        if let Some(skipped) = later.position(|step| step.is_at(text, at)) {
            *step += skipped;
            return Ok((self.route[*step].slot, at + colon + 1));
        }
        let found = self.names.binary_search_by(|(name, _)| (**name).cmp(&token[..colon]));
        let slot = found.map_or(NO_SLOT, |found| self.names[found].1);
        match self.met.slots.get_mut(slot) {
            Some(met) => *met = true,
            None if self.met.strangers.len() < MAX_STRANGERS => {
                let name = super::plain(&token[..colon]);
                if !self.met.strangers.contains(&name) {
                    self.met.strangers.push(name);
                }
            }
            None => {}
        }
        if self.route.len() >= 2 * self.slots.len() + SPARE_STEPS {
            self.route.clear();
            self.routes += 1;
        }
        // Names in no order are better looked up.
        if self.routes < MAX_ROUTES {
            *step = (*step).min(self.route.len());
            self.route.insert(*step, Step::new(&token[..=colon], slot));
        }
        Ok((slot, at + colon + 1))
    }

    #[cold]
    fn wrong_value(&self, slot: usize, value: &[u8]) -> String {
        let name = &self.slots[slot].name;
        match self.slots[slot].kind {
            crate::Kind::Ids => {
                format!("slot `{name}`: {} is not a whole number of 64 bits", shown(value))
            }
            crate::Kind::Floats => {
                format!("slot `{name}`: {} is not a finite number", shown(value))
            }
        }
    }
}

/// Appends the value at `at`; returns where it ended.
#[inline(always)]
fn push(column: &mut Column, text: &[u8], at: usize) -> Option<usize> {
    match column.values_mut() {
        Values::Ids(values) => {
            let (value, end) = number::id(text, at)?;
            values.push(value);
            Some(end)
        }
        Values::Floats(values) => {
            let (value, end) = number::float(text, at)?;
            values.push(value);
            Some(end)
        }
    }
}

impl Step {
    fn new(name: &[u8], slot: usize) -> Step {
        let mut first = [0; 16];
        let len = name.len().min(16);
        first[..len].copy_from_slice(&name[..len]);
        let mask = if len == 16 { u128::MAX } else { (1 << (8 * len)) - 1 };
        let first = u128::from_le_bytes(first);
        Step { first, mask, len: name.len(), slot, name: name.into() }
    }

    /// Whether this name and its colon stand at `at`.
    #[inline(always)]
    fn is_at(&self, text: &[u8], at: usize) -> bool {
        let rest = &text[at..];
        match rest.first_chunk() {
            Some(&bytes) => {
                u128::from_le_bytes(bytes) & self.mask == self.first
                    && (self.len <= 16 || rest.starts_with(&self.name))
            }
            None => rest.starts_with(&self.name),
        }
    }
}
