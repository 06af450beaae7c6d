//! Sparse tables as a checkpoint sees them.

use super::{Picks, RowVisitor, Rows, SaveMode, TableLayout};
use crate::Result;
use crate::table::{AccessorConfig, SparseTable};

impl Rows for SparseTable {
    fn layout(&self) -> TableLayout {
        let config = self.config();
        TableLayout {
            name: config.name.clone(),
            width: config.width,
            columns: self.columns(),
            shards: config.shards,
            config: serde_json::to_value(config).expect("settings are plain data"),
        }
    }

    fn parts(&self) -> usize {
        self.shard_count()
    }

    fn len(&self) -> usize {
        SparseTable::len(self)
    }

    fn read_part(&self, part: usize, mode: SaveMode, look: &mut RowVisitor<'_>) -> Result<()> {
        self.save_shard(part, mode, look)
    }

    fn take_removed(&self, mode: SaveMode) -> Vec<u64> {
        SparseTable::take_removed(self, mode)
    }

    fn remove(&self, keys: &[u64]) -> Result<()> {
        SparseTable::remove(self, keys);
        Ok(())
    }

    fn picks(&self) -> Picks {
        match self.config().accessor {
            AccessorConfig::Ctr(_) => Picks::Counters,
            AccessorConfig::Plain(_) => Picks::Changed,
        }
    }

    fn commit_save(&self) {
        SparseTable::commit_save(self);
    }

    fn abandon_save(&self) {
        SparseTable::abandon_save(self);
    }

    fn blank(&self, key: u64, record: &mut [f32]) {
        SparseTable::blank(self, key, record);
    }

    fn restore(&self, keys: &[u64], records: &[f32]) -> Result<()> {
        SparseTable::restore(self, keys, records)
    }

    fn clear(&self) {
        SparseTable::clear(self);
    }

    fn mark_loaded(&self) {
        // Counters say by themselves what a delta has, and were saved with the rows.
        self.forget_changes();
    }

    fn write_text(&self, record: &[f32], numbers: &mut Vec<f32>) {
        SparseTable::write_text(self, record, numbers);
    }

    fn read_text(&self, numbers: &[f32], record: &mut [f32]) -> std::result::Result<(), String> {
        SparseTable::read_text(self, numbers, record)
    }
}
