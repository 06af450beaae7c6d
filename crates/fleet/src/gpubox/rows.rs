//! Training a pass by row numbers: the ids of its samples are looked up once, by all cores, and not in every step.
//!
//! Looking an id up costs the host more than it costs a card, so on a card samples are numbered when they are used for the
//! second time: a pass that is trained once goes by keys there.
//!
//! Row numbers stay what they are as long as a table's variables are not made anew ([`Passes`] counts that), so the
//! next pass over the same samples uses them again, in whatever order.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bireme_data::{Batches, Contents, KeySlot, MemoryDataset, RowNumbers};
use bireme_ir::Program;
use bireme_transpiler::by_rows;

use super::Passes;
use crate::{Error, Result};

/// A pass, or a part of one, as it is trained.
pub struct PassRun {
    /// The program for batches of row numbers; `None` where those of keys are trained, by the program as it is.
    pub program: Option<Program>,
    rows: Option<Arc<RowNumbers>>,
    batches: Range<u64>,
}

impl PassRun {
    /// Bytes that the row numbers of the samples take.
    pub fn row_bytes(&self) -> usize {
        self.rows.as_ref().map_or(0, |rows| rows.bytes())
    }

    /// The batches from number `from` on, of a dataset that has not changed since.
    ///
    /// # Errors
    /// When it has, or holds nothing.
    pub fn open(&self, data: &MemoryDataset, from: u64) -> Result<Box<dyn Batches>> {
        let wrong = |error: bireme_data::Error| Error::Config(error.to_string());
        let mut batches = data.part(self.batches.clone(), self.rows.as_ref()).map_err(wrong)?;
        batches.skip(from.saturating_sub(self.batches.start)).map_err(wrong)?;
        Ok(batches)
    }
}

/// The samples that were used last, in which runs of batches.
#[derive(Default)]
pub(super) struct Used {
    of: Contents,
    parts: Vec<Range<u64>>,
}

impl Used {
    /// Whether these batches were used before; from now on they were.
    fn again(&mut self, data: &MemoryDataset, batches: &Range<u64>) -> bool {
        let now = data.contents();
        if !self.of.has_samples_of(&now) {
            *self = Used { of: now, parts: Vec::new() };
        }
        let again = self.parts.contains(batches);
        if !again {
            self.parts.push(batches.clone());
        }
        again
    }
}

/// Row numbers that were looked up, and for which numbering of rows.
pub(super) struct Resolved {
    rows: Arc<RowNumbers>,
    numbering: u64,
    /// The feeds that they are of.
    feeds: Vec<String>,
}

impl Resolved {
    pub(super) fn are_used(&self) -> bool {
        self.rows.are_used()
    }
}

impl Passes {
    /// How the pass that was begun last is trained over these batches of a dataset, or over all of it: by row numbers,
    /// which are looked up now, where `program` can be written for them; whoever runs it fetches `fetches`.
    ///
    /// # Errors
    /// When the dataset lacks a slot.
    pub fn run_over(
        &mut self,
        program: &Program,
        fetches: &[String],
        data: &MemoryDataset,
        part: Option<Range<u64>>,
    ) -> Result<PassRun> {
        let batches = part.clone().unwrap_or(0..u64::MAX);
        let pays = self.used.again(data, &batches) || self.executor.device().is_none();
        let can = pays && self.has_short_numbers();
        let Some(changed) = by_rows(program, fetches).filter(|_| can) else {
            return Ok(PassRun { program: None, rows: None, batches });
        };
        let looking = Instant::now();
        let feeds: Vec<String> = changed.feeds.iter().map(|feed| feed.name.clone()).collect();
        let fits = |known: &Resolved| {
            known.numbering == self.numbering
                && known.feeds == feeds
                && known.rows.are_of(data, &batches)
        };
        if !self.resolved.as_ref().is_some_and(fits) {
            // Not both in memory.
            self.resolved = None;
            let mut slots = Vec::new();
            for feed in &changed.feeds {
                let at = self.plan.tables.iter().position(|table| table.index == feed.index);
                let at = at.ok_or_else(|| {
                    Error::Config(format!("feed `{}` has keys of no table", feed.name))
                })?;
                let padding = self.plan.tables[at].reference.padding.map(|padding| padding as u64);
                slots.push(KeySlot { name: &feed.name, index: self.tables[at].index(), padding });
            }
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let rows = data.row_numbers(&slots, part, threads);
            let rows = Arc::new(rows.map_err(|error| Error::Config(error.to_string()))?);
            self.resolved = Some(Resolved { rows, numbering: self.numbering, feeds });
        }
        let took = looking.elapsed();
        self.report.resolve_seconds += took.as_secs_f64();
        // It is no time of training.
        self.since += took;
        let rows = self.resolved.as_ref().map(|resolved| Arc::clone(&resolved.rows));
        Ok(PassRun { program: Some(changed.program), rows, batches })
    }

    /// Whether the number of every row is one of 32 bits with a sign.
    fn has_short_numbers(&self) -> bool {
        self.tables.iter().all(|table| i32::try_from(table.index().len() + 1).is_ok())
    }
}
