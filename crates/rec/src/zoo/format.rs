//! How data files of a model are written, until `bireme_data::parse` has its own `Format`.

/// The layout of a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// For each slot a count and as many values.
    MultiSlot,
    /// `slot:value` tokens; the token's name of each slot.
    SlotValue(Vec<String>),
}
