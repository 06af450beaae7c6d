//! Lines of tables for [`crate::parse::Parser`]: they become samples, or facts about columns.

use std::sync::Arc;

use super::cells::{Cells, Use, Wanted};
use super::encode::{Encoder, Table};
use super::learn::Learner;
use super::settings::{Layout, Settings};
use super::{csv, pairs};
use crate::{Error, Result, Samples, Slot};

#[derive(Clone, Debug)]
pub(crate) struct TableParser {
    rows: Rows,
    to: To,
}

#[derive(Clone, Debug)]
enum Rows {
    Csv(csv::Rows),
    Pairs(pairs::Rows),
}

#[derive(Clone, Debug)]
enum To {
    Samples(Encoder),
    Facts(Box<Learner>),
}

impl TableParser {
    /// For samples of slots that have these names in the table.
    ///
    /// # Errors
    /// When the table does not have a slot, or its settings do not fit together.
    pub(crate) fn new(table: &Arc<Table>, slots: &[Slot], names: &[String]) -> Result<TableParser> {
        let encoder = Encoder::new(table, slots, names)?;
        let rows = Rows::new(&table.learned().settings, &encoder.uses())?;
        Ok(TableParser { rows, to: To::Samples(encoder) })
    }

    /// For facts about the columns.
    ///
    /// # Errors
    /// When the settings do not fit together.
    pub(crate) fn learning(settings: &Settings) -> Result<TableParser> {
        let learner = Learner::new(settings);
        let rows = Rows::new(settings, &learner.uses())?;
        Ok(TableParser { rows, to: To::Facts(Box::new(learner)) })
    }

    /// The facts that it has found.
    pub(crate) fn into_facts(self) -> Option<Learner> {
        match self.to {
            To::Facts(learner) => Some(*learner),
            To::Samples(_) => None,
        }
    }

    /// Reads what stands before the samples of a file; returns where they start, and how many lines
    /// it was.
    ///
    /// # Errors
    /// When the file lacks a column.
    pub(crate) fn begin(&mut self, text: &[u8]) -> std::result::Result<(usize, u64), String> {
        match &mut self.rows {
            Rows::Csv(rows) => rows.begin(text),
            Rows::Pairs(_) => Ok((0, 0)),
        }
    }

    /// Where the line behind the one at `at` starts, if that holds no sample.
    #[inline(always)]
    pub(crate) fn skip(&self, text: &[u8], at: usize) -> Option<usize> {
        match &self.rows {
            Rows::Csv(rows) => rows.skip(text, at),
            Rows::Pairs(_) => None,
        }
    }

    /// Takes the line at `at`; returns where the next one starts.
    #[inline(always)]
    pub(crate) fn sample(
        &mut self,
        text: &[u8],
        at: usize,
        out: &mut Samples,
    ) -> std::result::Result<usize, String> {
        match &mut self.to {
            To::Samples(encoder) => self.rows.each(text, at, &mut encoder.row(out.columns_mut())),
            To::Facts(learner) => self.rows.each(text, at, &mut **learner),
        }
    }
}

impl Rows {
    fn new(settings: &Settings, uses: &[Use]) -> Result<Rows> {
        let wanted = Wanted::new(settings, uses);
        Ok(match &settings.layout {
            Layout::Csv(layout) => {
                let label = settings.label.column.as_str();
                let spare = wanted.find(label).is_none().then_some(label);
                Rows::Csv(csv::Rows::new(layout, wanted, spare).map_err(Error::Settings)?)
            }
            Layout::LibSvm => Rows::Pairs(pairs::Rows::new(settings, wanted, false)),
            Layout::LibFfm => Rows::Pairs(pairs::Rows::new(settings, wanted, true)),
        })
    }

    #[inline(always)]
    fn each(
        &mut self,
        text: &[u8],
        at: usize,
        to: &mut impl Cells,
    ) -> std::result::Result<usize, String> {
        match self {
            Rows::Csv(rows) => rows.each(text, at, to),
            Rows::Pairs(rows) => rows.each(text, at, to),
        }
    }
}
