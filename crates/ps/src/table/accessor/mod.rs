//! What a record holds and how pulls, pushes, saves and time change it.
//!
//! Two families: [`Plain`] keeps weights and an engine optimizer's accumulators; [`Ctr`] keeps
//! Paddle's show and click counters, a first weight, and a long part that is made once the key has
//! been shown enough.

mod ctr;
mod plain;
mod text;

use std::ops::Deref;

use serde::{Deserialize, Serialize};

pub(super) use ctr::Ctr;
pub(super) use plain::Plain;

use super::columns::{Column, SaveMode};
use super::config::TableConfig;
use super::rule::OptimizerRule;
use crate::Result;
use bireme_engine::accessor::{CtrConfig, Mark};
use bireme_engine::random::{Philox, RowInit};

/// Which accessor a table has, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessorConfig {
    /// Weights that an optimizer of the engine trains.
    Plain(OptimizerRule),
    /// One of Paddle's accessors for click-through rates.
    Ctr(CtrConfig),
}

/// The accessor of one table.
#[derive(Clone, Debug)]
pub(super) enum Accessor {
    Plain(Plain),
    Ctr(Ctr),
}

/// Where the initial values of a table come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) draw: Philox,
    pub(super) init: RowInit,
}

impl Accessor {
    /// The accessor of a table with these settings.
    pub(super) fn new(config: &TableConfig) -> Result<Accessor> {
        let source =
            Source { draw: Philox::new(config.seed, &config.init_name), init: config.initializer };
        Ok(match &config.accessor {
            AccessorConfig::Plain(rule) => {
                Accessor::Plain(Plain::new(config, rule.clone(), source))
            }
            AccessorConfig::Ctr(ctr) => Accessor::Ctr(Ctr::new(config, ctr.clone(), source)?),
        })
    }
}

impl Deref for Accessor {
    type Target = dyn Record;

    fn deref(&self) -> &(dyn Record + 'static) {
        match self {
            Accessor::Plain(plain) => plain,
            Accessor::Ctr(ctr) => ctr,
        }
    }
}

/// What a family of accessors does with records. What is done to each row of a batch is not called
/// through [`Accessor`], but where the family is known.
pub(super) trait Record {
    /// Floats in a record.
    fn record_width(&self) -> usize;

    /// Floats of a record that a pull reads, from its start.
    fn pulled_span(&self) -> usize {
        self.record_width()
    }

    /// What a record is made of.
    fn columns(&self) -> Vec<Column>;

    /// Fills in the record of a new key, which comes as zeros.
    fn blank(&self, key: u64, record: &mut [f32]);

    /// Writes what a pull of this record gives.
    fn pull(&self, record: &[f32], out: &mut [f32]);

    /// Writes what a pull of a key without a record gives.
    fn pull_missing(&self, _key: u64, out: &mut [f32]) {
        out.fill(0.0);
    }

    /// Numbers of a record as a trainer is lent it for a pass.
    fn lent_width(&self) -> usize;

    /// Writes the record of `key` as a trainer is lent it.
    fn lend(&self, key: u64, mark: Mark, record: &[f32], lent: &mut [f32]);

    /// Whether the key of a lent record has a row.
    fn mark_of(&self, lent: &[f32]) -> Mark;

    /// Writes the record that a trainer gives back.
    fn take_back(&self, lent: &[f32], record: &mut [f32]);

    /// Sets the pulled columns, and admits the row.
    fn set(&self, record: &mut [f32], values: &[f32]);

    /// Adds to the weights.
    fn add(&self, record: &mut [f32], deltas: &[f32]);

    /// Whether a save takes this row.
    fn saves(&self, mode: SaveMode, _record: &[f32], changed: bool) -> bool {
        mode != SaveMode::Delta || changed
    }

    /// Whether [`Record::saved`] changes records in this mode.
    fn marks_records(&self, _mode: SaveMode) -> bool {
        false
    }

    /// What a save leaves behind in a record that it took.
    fn mark_saved(&self, _mode: SaveMode, _record: &mut [f32]) {}

    /// Takes back what a save left behind that came to nothing.
    fn undo_save(&self, _mode: SaveMode, _record: &mut [f32]) {}

    /// A day passes; returns whether the row stays.
    fn shrink(&self, _record: &mut [f32]) -> bool {
        true
    }

    /// Shows and clicks, where the record counts them.
    fn counts(&self, record: &[f32]) -> Option<[f64; 2]>;

    /// The numbers after the key in Paddle's text layout; what the row does not have yet is left
    /// out at the end.
    fn write_text(&self, record: &[f32], numbers: &mut Vec<f32>) {
        numbers.extend_from_slice(record);
    }

    /// The record of a row of Paddle's text layout; `record` comes as a new row.
    fn read_text(&self, numbers: &[f32], record: &mut [f32]) -> std::result::Result<(), String> {
        if numbers.len() != record.len() {
            let (has, wants) = (numbers.len(), record.len());
            return Err(format!("a row has {has} numbers, but this table's have {wants}"));
        }
        record.copy_from_slice(numbers);
        Ok(())
    }
}
