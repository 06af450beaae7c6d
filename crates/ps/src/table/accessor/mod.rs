//! What a record holds and how pulls, pushes, saves and time change it.
//!
//! Two families: [`Plain`] keeps weights and an engine optimizer's accumulators; [`Ctr`] keeps
//! Paddle's show and click counters, a first weight, and a long part that is made once the key has
//! been shown enough.

mod ctr;
mod ctr_config;
mod plain;
mod raw;
mod text;

use serde::{Deserialize, Serialize};

pub use ctr_config::{CtrClass, CtrConfig};

pub(super) use ctr::Ctr;
pub(super) use plain::Plain;

use super::columns::{Column, SaveMode};
use super::config::TableConfig;
use super::init::RowInit;
use super::rule::OptimizerRule;
use crate::Result;
use bireme_engine::random::Philox;

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

    /// Floats in a record.
    pub(super) fn record_width(&self) -> usize {
        match self {
            Accessor::Plain(plain) => plain.record_width(),
            Accessor::Ctr(ctr) => ctr.record_width(),
        }
    }

    /// Floats of a record that a pull reads, from its start.
    pub(super) fn pulled_span(&self) -> usize {
        match self {
            Accessor::Plain(plain) => plain.weights().end,
            Accessor::Ctr(ctr) => ctr.record_width(),
        }
    }

    /// What a record is made of.
    pub(super) fn columns(&self) -> Vec<Column> {
        match self {
            Accessor::Plain(plain) => plain.columns(),
            Accessor::Ctr(ctr) => ctr.columns(),
        }
    }

    /// Fills in the record of a new key, which comes as zeros.
    pub(super) fn blank(&self, key: u64, record: &mut [f32]) {
        match self {
            Accessor::Plain(plain) => plain.blank(key, record),
            Accessor::Ctr(ctr) => ctr.blank(key, record),
        }
    }

    /// Writes what a pull of this record gives.
    pub(super) fn pull(&self, record: &[f32], out: &mut [f32]) {
        match self {
            Accessor::Plain(plain) => plain.pull(record, out),
            Accessor::Ctr(ctr) => ctr.pull(record, out),
        }
    }

    /// Writes what a pull of a key without a record gives.
    pub(super) fn pull_missing(&self, key: u64, out: &mut [f32]) {
        match self {
            Accessor::Plain(plain) => plain.pull_missing(key, out),
            Accessor::Ctr(_) => out.fill(0.0),
        }
    }

    /// Sets the pulled columns, and admits the row.
    pub(super) fn set(&self, record: &mut [f32], values: &[f32]) {
        match self {
            Accessor::Plain(plain) => plain.set(record, values),
            Accessor::Ctr(ctr) => ctr.set(record, values),
        }
    }

    /// Adds to the weights.
    pub(super) fn add(&self, record: &mut [f32], deltas: &[f32]) {
        match self {
            Accessor::Plain(plain) => plain.add(record, deltas),
            Accessor::Ctr(ctr) => ctr.add(record, deltas),
        }
    }

    /// Whether a save takes this row.
    pub(super) fn saves(&self, mode: SaveMode, record: &[f32], changed: bool) -> bool {
        match self {
            Accessor::Plain(_) => mode != SaveMode::Delta || changed,
            Accessor::Ctr(ctr) => ctr.saves(mode, record),
        }
    }

    /// What a save leaves behind in a row that it took. Returns whether the row still counts as
    /// changed.
    pub(super) fn saved(&self, mode: SaveMode, record: &mut [f32], changed: bool) -> bool {
        if let Accessor::Ctr(ctr) = self {
            ctr.saved(mode, record);
        }
        changed && !matches!(mode, SaveMode::Delta | SaveMode::Base)
    }

    /// Whether [`Accessor::saved`] changes counters of the rows in this mode.
    pub(super) fn marks_records(&self, mode: SaveMode) -> bool {
        matches!(self, Accessor::Ctr(_)) && mode != SaveMode::Full
    }

    /// The save that took this row came to nothing: takes back what it left behind. Returns whether
    /// the row counts as changed again.
    pub(super) fn unsaved(&self, mode: SaveMode, record: &mut [f32]) -> bool {
        if let Accessor::Ctr(ctr) = self {
            ctr.unsaved(mode, record);
        }
        matches!(mode, SaveMode::Delta | SaveMode::Base)
    }

    /// A day passes; returns whether the row stays.
    pub(super) fn shrink(&self, record: &mut [f32]) -> bool {
        match self {
            Accessor::Plain(_) => true,
            Accessor::Ctr(ctr) => ctr.shrink(record),
        }
    }

    /// Shows and clicks, where the record counts them.
    pub(super) fn counts(&self, record: &[f32]) -> Option<[f64; 2]> {
        match self {
            Accessor::Plain(plain) => plain.counts(record),
            Accessor::Ctr(ctr) => Some(ctr.counts(record)),
        }
    }
}
