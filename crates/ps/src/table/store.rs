//! What servers and checkpoints need of a keyed table, wherever its rows are: in memory
//! ([`super::SparseTable`]), or behind something that takes its place, such as a tier on disk or a
//! cache on a GPU.

use serde::{Deserialize, Serialize};

use super::{Column, PushStep, SaveMode, Shrunk};
use crate::Result;

/// Sees keys and their whole records, one after another.
pub type RowVisitor<'a> = dyn FnMut(&[u64], &[f32]) -> Result<()> + 'a;

/// A keyed table as servers use it. All calls may come from many threads at a time; those of one
/// batch are not one transaction.
pub trait RowStore: Rows {
    /// Columns that a pull gives, and that a gradient has.
    fn width(&self) -> usize;

    /// Bytes of memory.
    fn bytes(&self) -> usize;

    /// Reads the rows of `keys` into `out`, in any order and with repeats; makes missing ones, if
    /// the settings say so.
    ///
    /// # Errors
    /// When `out` does not fit, or there is no room for a row.
    fn pull(&self, keys: &[u64], out: &mut [f32]) -> Result<()>;

    /// Numbers of a record as a trainer is lent it for a pass.
    fn lent_width(&self) -> usize;

    /// Copies the whole records of `keys`, in any order and with repeats, as a trainer is lent them;
    /// those of missing rows are written as they would be made, and are not made.
    ///
    /// # Errors
    /// When `out` does not fit.
    fn lend(&self, keys: &[u64], out: &mut [f32]) -> Result<()>;

    /// Makes or replaces rows by what a trainer gives back; those that it did not make stay missing.
    ///
    /// # Errors
    /// When `records` do not fit, or there is no room for a row.
    fn take_back(&self, keys: &[u64], records: &[f32]) -> Result<()>;

    /// Applies a gradient to each of `keys`, which should be distinct (repeats are applied one
    /// after the other); makes missing rows. `counts` has shows and clicks for each key; without
    /// them each key was shown once. Tables that keep no counters have no use for them.
    ///
    /// # Errors
    /// When the sizes do not fit, the table has no optimizer, or there is no room for a row.
    fn push(
        &self,
        keys: &[u64],
        grads: &[f32],
        counts: Option<&[[f32; 2]]>,
        step: &PushStep,
    ) -> Result<()>;

    /// Sets the pulled columns of `keys` and admits them; makes missing rows.
    ///
    /// # Errors
    /// When the sizes do not fit, or there is no room for a row.
    fn set(&self, keys: &[u64], values: &[f32]) -> Result<()>;

    /// Lets a day pass: counters decay, and rows that are too old or were shown too little go.
    /// Tables without counters stay as they are.
    fn shrink(&self) -> Shrunk;
}

/// A keyed table as checkpoints use it: rows by key, each a record of columns.
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
