//! Tables of columns: CSV, LibSVM and LibFFM lines become samples.
//!
//! [`Settings`] say what the columns are, [`Learned`] what the training data says about them (one
//! pass, [`learn`]), and a [`Table`] is both, ready for parsers. Prediction reads what training
//! wrote, so that a cell means the same to both. Ids of hashed words start at 1, those of other
//! columns have ranges behind; 0 is no id.

mod cells;
mod csv;
mod encode;
mod hash;
mod learn;
mod learned;
mod number;
mod pairs;
mod parser;
mod pass;
mod profile;
mod settings;
#[cfg(test)]
mod tests;
mod text;

pub use encode::{DENSE, IDS, LABEL, Table, WEIGHT};
pub use learned::{Becomes, ColumnFacts, FileMark, Learned};
pub use pass::learn;
pub use profile::{Guess, Profile, guess};
pub use settings::{
    ALL_INDICES, Bins, Csv, Feature, Fill, Header, Label, Layout, Number, Rule, Scale, Settings,
    Words,
};
pub use text::TextColumn;

pub(crate) use learn::Learner;
pub(crate) use parser::TableParser;
