//! The lines that a model was trained on, as rows of its feeds: parsed as training parses them, so
//! that a line means the same to both.

use anyhow::{Result, bail};
use bireme_data::parse::Parser;
use bireme_data::{Batch, Samples, Slot};
use bireme_engine::Step;
use bireme_rec::run::Lines;

/// Rows that have been read and not been run yet.
pub(crate) struct Trained {
    parser: Parser,
    slots: Vec<Slot>,
    samples: Samples,
    batch: Batch,
    /// The slot of each feed.
    feeds: Vec<usize>,
}

impl Trained {
    /// No rows yet, of lines like `first`.
    ///
    /// # Errors
    /// When the lines cannot be what the model was trained on.
    pub(crate) fn new(lines: &Lines, first: &str, feeds: &[String]) -> Result<Trained> {
        let format = lines.format(first.as_bytes(), feeds).map_err(anyhow::Error::msg)?;
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
        Ok(Trained { parser, slots, samples, batch, feeds: places })
    }

    /// Adds the row that `line` holds.
    ///
    /// # Errors
    /// What is wrong with it; the rows are then as before.
    pub(crate) fn push(&mut self, line: &str) -> Result<()> {
        self.parser.line(line.as_bytes(), &mut self.samples).map_err(anyhow::Error::msg)
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
