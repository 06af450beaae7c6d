//! A table as checkpoints see it: rows that go to disk, and rows that come back.

use std::collections::HashSet;

use super::{Anyone, SHARDS, SparseTable};
use crate::Result;
use crate::table::batch::shard_of;
use crate::table::index::hash;
use crate::table::shard::Missing;
use crate::table::store::{Picks, RowVisitor, Rows, TableLayout};
use crate::table::{AccessorConfig, SaveMode};

/// Bytes of rows that a save copies under one hold of a shard's lock.
const SAVED_AT_ONCE: usize = 4 << 20;

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
        SHARDS
    }

    fn len(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).len()).sum()
    }

    // The shard's lock is held while some rows are copied, and not while they are looked at.
    fn read_part(&self, part: usize, mode: SaveMode, look: &mut RowVisitor<'_>) -> Result<()> {
        let _row_moves = self.row_moves();
        let at_once = (SAVED_AT_ONCE / (self.record_width() * size_of::<f32>()).max(1)).max(1);
        let (mut keys, mut records) = (Vec::new(), Vec::new());
        let mut first = 0;
        loop {
            let mut shard = self.lock(part);
            if first >= shard.len() {
                return Ok(());
            }
            shard.save(mode, first..first + at_once, |key, record, changed| {
                if !self.accessor.saves(mode, record, changed) {
                    return (changed, false);
                }
                keys.push(key);
                records.extend_from_slice(record);
                self.accessor.mark_saved(mode, record);
                let still = changed && !starts_a_delta(mode);
                (still, still != changed || self.accessor.marks_records(mode))
            });
            drop(shard);
            first += at_once;
            if !keys.is_empty() {
                look(&keys, &records)?;
            }
            keys.clear();
            records.clear();
        }
    }

    fn take_removed(&self, mode: SaveMode) -> Vec<u64> {
        let take = |shard| {
            let mut shard = self.lock(shard);
            match mode {
                SaveMode::Delta => shard.take_removed(),
                // All rows that a base does not have are gone.
                SaveMode::Base => {
                    shard.take_removed();
                    Vec::new()
                }
                SaveMode::Full | SaveMode::FullAging => {
                    shard.removed().want();
                    Vec::new()
                }
            }
        };
        (0..SHARDS).flat_map(take).collect()
    }

    fn remove(&self, keys: &[u64]) -> Result<()> {
        let keys: HashSet<u64> = keys.iter().copied().collect();
        let shards: HashSet<usize> = keys.iter().map(|key| shard_of(hash(*key))).collect();
        for shard in shards {
            let _row_moves = self.row_moves();
            self.lock(shard).retain(|key, _| !keys.contains(&key));
        }
        Ok(())
    }

    fn picks(&self) -> Picks {
        match self.config().accessor {
            AccessorConfig::Ctr(_) => Picks::Counters,
            AccessorConfig::Plain(_) => Picks::Changed,
        }
    }

    fn commit_save(&self) {
        (0..SHARDS).for_each(|shard| self.lock(shard).commit_save());
    }

    fn abandon_save(&self) {
        let undo = |mode, record: &mut [f32]| {
            self.accessor.undo_save(mode, record);
            starts_a_delta(mode)
        };
        (0..SHARDS).for_each(|shard| self.lock(shard).abandon_save(undo));
    }

    fn blank(&self, key: u64, record: &mut [f32]) {
        self.accessor.blank(key, record);
    }

    fn restore(&self, keys: &[u64], records: &[f32]) -> Result<()> {
        let width = self.record_width();
        self.check_len(keys, records.len(), width, "numbers")?;
        self.visit::<true>(keys, &Missing::Make(&Anyone(self)), |position, _, record| {
            if let Some(record) = record {
                record.copy_from_slice(&records[position * width..][..width]);
            }
        })
    }

    fn clear(&self) {
        for shard in 0..SHARDS {
            let _row_moves = self.row_moves();
            self.lock(shard).clear();
        }
    }

    fn mark_loaded(&self) {
        // Counters say by themselves what a delta has, and were saved with the rows.
        (0..SHARDS).for_each(|shard| self.lock(shard).forget_changes());
    }

    fn write_text(&self, record: &[f32], numbers: &mut Vec<f32>) {
        self.accessor.write_text(record, numbers);
    }

    fn read_text(&self, numbers: &[f32], record: &mut [f32]) -> std::result::Result<(), String> {
        self.accessor.read_text(numbers, record)
    }
}

/// Whether rows that a save in this mode took count as unchanged from then on.
fn starts_a_delta(mode: SaveMode) -> bool {
    matches!(mode, SaveMode::Delta | SaveMode::Base)
}
