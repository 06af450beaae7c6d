//! What a checkpoint asks of a server: its dense pieces and its tables.
//!
//! The server implements [`Holdings`], a sparse table implements [`Rows`]; the checkpoint knows no
//! more of either. What one call shows is of one instant: a value never goes to disk with the
//! optimizer state of another step.

use std::sync::Arc;

use bireme_engine::tensor::{Dims, Tensor};
use bireme_ir::DType;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::table::{Column, RowVisitor, SaveMode};

/// Everything a server holds that outlives the job.
pub trait Holdings: Sync {
    /// Updates applied so far: the step that a restart continues from.
    fn step(&self) -> u64;

    /// Takes the step of a checkpoint that was just loaded.
    fn set_step(&self, step: u64);

    /// The dense pieces, row-sliced tables among them, in any order. Variables that every server
    /// has (a learning rate, a counter of steps) are pieces that cover the whole variable.
    fn pieces(&self) -> Vec<Piece>;

    /// Shows the value of a piece and then its states, in the order of [`Piece::states`], under one
    /// lock. The sizes are those that [`Holdings::pieces`] says.
    fn read_piece(&self, piece: &str, look: &mut dyn FnMut(&[&Tensor]) -> Result<()>)
    -> Result<()>;

    /// As [`Holdings::read_piece`], for a piece that is too large to be in memory twice or to be
    /// written while its lock is held: `look` sees some bytes at a time, value by value, all of one
    /// instant.
    fn read_piece_in_parts(
        &self,
        piece: &str,
        look: &mut dyn FnMut(&Part<'_>) -> Result<()>,
    ) -> Result<()>;

    /// Something of a checkpoint was written or read, which may take long as a whole.
    fn progressed(&self) {}

    /// As [`Holdings::read_piece`], to fill them in when a checkpoint is loaded.
    fn write_piece(
        &self,
        piece: &str,
        fill: &mut dyn FnMut(&mut [&mut Tensor]) -> Result<()>,
    ) -> Result<()>;

    /// The keyed tables, each of them in the same place on every server: the place is the table's
    /// id in Paddle's layout.
    fn tables(&self) -> Vec<Arc<dyn Rows>>;
}

/// Some bytes of one of several values.
#[derive(Debug)]
pub struct Part<'a> {
    /// Which value, from 0.
    pub value: usize,
    /// Its type.
    pub dtype: DType,
    /// Its dimensions.
    pub dims: Dims,
    /// The first byte that is here; the parts of a value come in order, from 0 on.
    pub start: usize,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The part of a dense variable that one server holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its name on the server: `fc_w.block0`, or the variable's own if it is not cut.
    pub name: String,
    /// The whole variable: `fc_w`.
    pub variable: String,
    /// The shape of the whole variable.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: DType,
    /// The first element of the piece within the whole variable, laid out row by row.
    pub start: usize,
    /// Its number of elements.
    pub len: usize,
    /// What the optimizer keeps beside it.
    pub states: Vec<State>,
}

/// A variable that an optimizer keeps beside a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its name for the whole variable, the same on every server and for every way of cutting:
    /// `fc_w_moment1_0`.
    pub variable: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Which elements it has.
    pub kind: StateKind,
}

/// Which elements a state has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// One for each element of the piece: a moment.
    Elementwise,
    /// A few for the piece as a whole: the power of a beta.
    Whole,
}

/// A keyed table: rows by key, each a record of columns.
pub trait Rows: Send + Sync {
    /// Its name and the columns of its records.
    fn layout(&self) -> TableLayout;

    /// How many parts it has, each under a lock of its own.
    fn parts(&self) -> usize;

    /// Rows in all its parts, those that a filter would leave out included.
    fn len(&self) -> usize;

    /// Whether it has no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shows the rows of a part that `mode` selects, as keys and whole records one after another,
    /// in one or several runs; each record is of one instant. It marks these rows as saved (what
    /// changes later is what the next delta has) and ages them if the mode says so, but only
    /// [`Rows::commit_save`] makes that last.
    fn read_part(&self, part: usize, mode: SaveMode, look: &mut RowVisitor<'_>) -> Result<()>;

    /// The keys that a save in this mode names because their rows went since the last delta or
    /// base; asked before the parts are read, and as lasting as their marks.
    fn take_removed(&self, mode: SaveMode) -> Vec<u64>;

    /// Removes rows, where there are any.
    fn remove(&self, keys: &[u64]) -> Result<()>;

    /// How it picks the rows of a delta.
    fn picks(&self) -> Picks;

    /// The checkpoint of the last save is complete: the marks of its rows last.
    fn commit_save(&self);

    /// The last save came to nothing, if it was not committed: its rows are as if it had never been.
    fn abandon_save(&self);

    /// Writes into `record` what a row has when it is made: the columns that a checkpoint of
    /// another optimizer does not have.
    fn blank(&self, key: u64, record: &mut [f32]);

    /// Makes or replaces rows.
    fn restore(&self, keys: &[u64], records: &[f32]) -> Result<()>;

    /// Removes all rows.
    fn clear(&self);

    /// All its rows were just loaded: what changes from now on is what the next delta has.
    fn mark_loaded(&self);

    /// The numbers after the key in Paddle's text layout. Columns that a row does not have yet are
    /// left out at the end.
    fn write_text(&self, record: &[f32], numbers: &mut Vec<f32>) {
        numbers.extend_from_slice(record);
    }

    /// The record of a row of Paddle's text layout; `record` comes as [`Rows::blank`] fills it.
    fn read_text(&self, numbers: &[f32], record: &mut [f32]) -> std::result::Result<(), String> {
        if numbers.len() > record.len() {
            let (has, wants) = (numbers.len(), record.len());
            return Err(format!("a row has {has} numbers, the table's rows have at most {wants}"));
        }
        record[..numbers.len()].copy_from_slice(numbers);
        Ok(())
    }
}

/// What the rows of a table are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableLayout {
    /// Its name.
    pub name: String,
    /// Columns that a pull gives.
    pub width: usize,
    /// What a record is made of, in order.
    pub columns: Vec<Column>,
    /// Paddle's number of shards: which server has a key depends on the key modulo this.
    pub shards: u64,
    /// The settings of the table, for whoever reads the manifest.
    pub config: serde_json::Value,
}

impl TableLayout {
    /// Numbers in a record.
    pub fn record_width(&self) -> usize {
        self.columns.iter().map(|column| column.width).sum()
    }
}

/// How a table picks the rows of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Picks {
    /// By its accessor's thresholds for shows and clicks.
    Counters,
    /// Rows changed since they were last saved.
    Changed,
    /// It cannot tell: a delta has every row.
    Everything,
}
