//! Looking at whole rows, for checkpoints: a shard at a time, under its lock.

use super::accessor::Accessor;
use super::columns::SaveMode;
use super::shard::Shard;

/// A row as a save sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// Its key.
    pub key: u64,
    /// All of its numbers.
    pub record: &'a [f32],
    /// Whether it changed since it was last marked as saved.
    pub changed: bool,
}

/// One shard of a table, locked as long as this lives.
pub struct ShardView<'a> {
    pub(super) shard: &'a mut Shard,
    pub(super) accessor: &'a Accessor,
    pub(super) number: usize,
}

impl ShardView<'_> {
    /// The number of the shard.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its rows.
    pub fn len(&self) -> usize {
        self.shard.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every row.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.shard.rows().map(|(key, record, changed)| Row { key, record, changed })
    }

    /// The rows that a save in this mode takes.
    pub fn saved_rows(&self, mode: SaveMode) -> impl Iterator<Item = Row<'_>> {
        self.rows().filter(move |row| self.accessor.saves(mode, row.record, row.changed))
    }
}
