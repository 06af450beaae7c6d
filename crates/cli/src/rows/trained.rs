//! The lines that a model was trained on, as rows of its feeds: parsed as training parses them, so
//! that a line means the same to both.

use std::path::Path;

use anyhow::{Result, bail};
use bireme_data::parse::{Format, Parser};
use bireme_data::table::{Header, Layout};
use bireme_data::{Batch, Samples, Slot};
use bireme_engine::Step;
use bireme_rec::run::Lines;

use super::id::Id;

/// Rows that have been read and not been run yet.
pub(crate) struct Trained {
    parser: Parser,
    slots: Vec<Slot>,
    samples: Samples,
    batch: Batch,
    /// The slot of each feed.
    feeds: Vec<usize>,
    /// Whether every file begins with the names of its columns, and those of this one are known.
    header: Option<bool>,
    /// What names the samples.
    id: Option<Id>,
}

impl Trained {
    /// No rows yet, of lines like `first`, for a model in this folder; `id` names samples.
    ///
    /// # Errors
    /// When the lines cannot be what the model was trained on.
    pub(crate) fn new(
        (lines, folder): (&Lines, &Path),
        first: &[u8],
        feeds: &[String],
        id: Option<&str>,
    ) -> Result<Trained> {
        let format = match lines.table(folder, feeds)? {
            Some(format) => format,
            None => lines.format(first, feeds).map_err(anyhow::Error::msg)?,
        };
        let slots = lines.slots(&format, feeds);
        let place = |feed: &String| slots.iter().position(|slot| slot.name == *feed);
        let places: Option<Vec<usize>> = feeds.iter().map(place).collect();
        let Some(places) = places else {
            bail!(
                "the model is fed {}, and not by the lines that it was trained on: write JSON \
                 objects, with a value for each",
                super::quoted(feeds.iter().map(String::as_str))
            );
        };
        let parser = Parser::new(&format, &slots)?;
        let (samples, batch) = (Samples::of(&slots), Batch::of(&slots));
        let header = has_header(&format).then_some(false);
        let id = id.map(|column| Id::of_lines(&format, column)).transpose()?;
        Ok(Trained { parser, slots, samples, batch, feeds: places, header, id })
    }

    /// Another file begins.
    pub(crate) fn begin_file(&mut self) {
        self.header = self.header.map(|_| false);
    }

    /// Whether a line holds no row: it is a comment, or the names of the columns.
    ///
    /// # Errors
    /// When a column is missing.
    pub(crate) fn skips(&mut self, line: &[u8]) -> Result<bool> {
        if self.parser.skips(line) {
            return Ok(true);
        }
        if self.header != Some(false) {
            return Ok(false);
        }
        self.parser.begin(line).map_err(anyhow::Error::msg)?;
        if let Some(id) = &mut self.id {
            id.begin(line)?;
        }
        self.header = Some(true);
        Ok(true)
    }

    /// What names the sample of a line.
    ///
    /// # Errors
    /// When the line has nothing for it.
    pub(crate) fn id(&mut self, line: &[u8]) -> Result<Option<String>> {
        self.id.as_mut().map(|id| id.of(line)).transpose()
    }

    /// Adds the row that `line` holds.
    ///
    /// # Errors
    /// What is wrong with it; the rows are then as before.
    pub(crate) fn push(&mut self, line: &[u8]) -> Result<()> {
        self.parser.line(line, &mut self.samples).map_err(anyhow::Error::msg)
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.samples = Samples::of(&self.slots);
    }

    /// Runs the model on all rows, or on one of them.
    ///
    /// # Errors
    /// When the step fails.
    pub(crate) fn run(&mut self, step: &mut Step, only: Option<usize>) -> Result<()> {
        let rows = only.map_or(0..self.samples.len(), |row| row..row + 1);
        self.batch.fill(&self.samples, rows);
        let tensors = self.batch.tensors();
        let fed: Vec<_> = self.feeds.iter().map(|&slot| tensors[slot]).collect();
        Ok(step.run(&fed)?)
    }
}

/// Whether the first line of a file names its columns.
fn has_header(format: &Format) -> bool {
    let Format::Table(options) = format else { return false };
    let layout = &options.table.learned().settings.layout;
    matches!(layout, Layout::Csv(csv) if csv.header == Header::Line)
}
