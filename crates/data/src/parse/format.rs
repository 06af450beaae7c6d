//! How lines are written, and what can be chosen about it.

use std::fmt;
use std::sync::Arc;

use crate::table::{Layout, Table};
use crate::{Error, Result, Slot};

/// How a line holds a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Format {
    /// For each slot in order a count and as many values: `3 1926 8 17 1 1`.
    MultiSlot(MultiSlotOptions),
    /// PaddleRec's tokens in any order: `click:1 dense_feature:0.5 1:104733`.
    SlotValue(SlotValueOptions),
    /// Criteo's raw lines: a label, 13 numbers and 26 words, with tabs between them.
    Criteo(CriteoOptions),
    /// Tables of columns.
    Table(TableOptions),
}

/// Choices of [`Format::MultiSlot`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MultiSlotOptions {
    /// The line starts with `1 NAME`, the name of the sample.
    pub parse_ins_id: bool,
    /// Then follows `1 TEXT`, which says something about the sample.
    pub parse_content: bool,
}

/// Choices of [`Format::SlotValue`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotValueOptions {
    /// What stands before the colon for each slot, in the order of the slots; empty where that is
    /// the slot's name.
    pub tokens: Vec<String>,
    /// What a slot gets that a line does not name: once, or as often as it has values.
    pub padding: u32,
    /// Slots that every line must name: labels. Lines without them are bad.
    pub required: Vec<String>,
}

/// Choices of [`Format::Criteo`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriteoOptions {
    /// What of a line goes into each slot, in the order of the slots, by PaddleRec's names:
    /// `click`, `dense_feature` (13 numbers), `1` to `26`; empty where those are the slots' names.
    pub tokens: Vec<String>,
    /// How many ids the words are spread over.
    pub hash_space: u64,
}

/// Choices of [`Format::Table`].
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    /// What the columns become.
    pub table: Arc<Table>,
    /// What of a row goes into each slot, in the order of the slots: `@label`, `@weight`, `@dense`,
    /// and `@ids0` and so on; empty where those are the slots' names.
    pub tokens: Vec<String>,
}

impl Default for CriteoOptions {
    fn default() -> CriteoOptions {
        CriteoOptions { tokens: Vec::new(), hash_space: 1_000_001 }
    }
}

impl Format {
    /// Plain MultiSlot lines.
    pub fn multi_slot() -> Format {
        Format::MultiSlot(MultiSlotOptions::default())
    }

    /// `slot:value` lines with the slots' own names, missing values are zeros.
    pub fn slot_value() -> Format {
        Format::SlotValue(SlotValueOptions::default())
    }

    /// The name that data has for each slot.
    ///
    /// # Errors
    /// When there are names for some slots only.
    pub fn names(&self, slots: &[Slot]) -> Result<Vec<String>> {
        match self {
            Format::MultiSlot(_) => names(&[], slots),
            Format::SlotValue(options) => names(&options.tokens, slots),
            Format::Criteo(options) => names(&options.tokens, slots),
            Format::Table(options) => names(&options.tokens, slots),
        }
    }

    /// Criteo's raw lines into slots with PaddleRec's names.
    pub fn criteo() -> Format {
        Format::Criteo(CriteoOptions::default())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::MultiSlot(_) => "multislot",
            Format::SlotValue(_) => "slot_value",
            Format::Criteo(_) => "criteo",
            Format::Table(options) => match options.table.learned().settings.layout {
                Layout::Csv(_) => "csv",
                Layout::LibSvm => "libsvm",
                Layout::LibFfm => "libffm",
            },
        })
    }
}

/// The name that lines have for each slot.
pub(super) fn names(tokens: &[String], slots: &[Slot]) -> Result<Vec<String>> {
    if tokens.is_empty() {
        return Ok(slots.iter().map(|slot| slot.name.clone()).collect());
    }
    if tokens.len() != slots.len() {
        return Err(Error::Settings(format!(
            "there are {} slots, but names in the data for {}: give one for each slot, in the same \
             order",
            slots.len(),
            tokens.len()
        )));
    }
    Ok(tokens.to_vec())
}
