//! One shard: its index, its records, and which of them changed since they were last saved.
//!
//! A record begins with the key; what follows is the accessor's. Records lie without gaps.

use std::sync::Arc;

use super::arena::{Arena, Records};
use super::batch::{Item, index_hash};
use super::columns::SaveMode;
use super::growth::GrowingIndex;
use super::index::{MOST, NONE, hash};
use super::removed::Removed;

/// Floats that the key takes at the start of a record.
pub(super) const KEY: usize = 2;
/// Keys that are in the same stage of their way from the index to the record.
const GROUP: usize = 16;

/// What happens to the key of a row that does not exist.
pub(super) enum Missing<'a> {
    /// The row stays missing.
    Skip,
    /// The row is made by this, unless the key is refused.
    Make(&'a dyn Maker),
}

/// Who makes new rows.
pub(super) trait Maker {
    /// Whether this key may have a row at all.
    fn admits(&self, key: u64) -> bool;
    /// Fills in a new record, which comes as zeros.
    fn fill(&self, key: u64, record: &mut [f32]);
}

/// A shard could not take another row.
#[derive(Debug)]
pub(super) struct Full;

/// A part of a table that is locked as a whole.
pub(super) struct Shard {
    index: GrowingIndex,
    records: Records,
    /// A bit for each record: changed since it was last saved.
    changed: Vec<u64>,
    /// The save whose checkpoint may not exist yet.
    saving: Option<Saving>,
    /// Keys whose rows went since the last delta.
    removed: Removed,
    /// Where a record ends; a float of padding may follow.
    end: usize,
}

/// What a save took while nobody knows yet whether its checkpoint is complete.
struct Saving {
    mode: SaveMode,
    /// A bit for each record that it changed or marked; rows that came later have none.
    rows: Vec<u64>,
}

impl Saving {
    fn has(&self, slot: u32) -> bool {
        self.rows.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    fn put(&mut self, slot: u32, took: bool) {
        let word = slot as usize / 64;
        if took && word >= self.rows.len() {
            self.rows.resize(word + 1, 0);
        }
        if let Some(word) = self.rows.get_mut(word) {
            *word = *word & !(1 << (slot % 64)) | u64::from(took) << (slot % 64);
        }
    }
}

/// Some of the items of a batch; none beyond the last.
#[inline(always)]
fn group(items: &[Item], number: usize) -> &[Item] {
    let first = (number * GROUP).min(items.len());
    &items[first..(first + GROUP).min(items.len())]
}

/// The key at the start of a row.
#[inline(always)]
fn key_of(row: &[f32]) -> u64 {
    u64::from(row[0].to_bits()) | u64::from(row[1].to_bits()) << 32
}

/// What the index takes of the hash of the key in `slot`.
#[inline(always)]
fn hash_in(records: &Records, slot: u32) -> u32 {
    index_hash(hash(key_of(records.row(slot))))
}

impl Shard {
    /// An empty one, for records of `width` floats, with memory from these arenas. Shards of one
    /// table should differ in `phase` (from 0 to 1): they grow at the same pace, and a pull should
    /// not meet all of them just when they need memory or a larger index.
    pub(super) fn new(index: &Arc<Arena>, records: &Arc<Arena>, width: usize, phase: f64) -> Shard {
        let (index, records) = (GrowingIndex::empty(index, phase), Records::new(records, phase));
        let (changed, removed) = (Vec::new(), Removed::default());
        Shard { index, records, changed, saving: None, removed, end: KEY + width }
    }

    /// Rows.
    pub(super) fn len(&self) -> usize {
        self.records.len() as usize
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let saving = self.saving.as_ref().map_or(0, |saving| saving.rows.capacity());
        let bits = self.changed.capacity() + saving;
        self.records.bytes() + self.index.bytes() + bits * size_of::<u64>()
    }

    /// Calls `work` for each item with its record, or with none when there is none and none is
    /// made. `span` says how many floats of a record the work will read; `CHANGES` that it
    /// changes the records.
    #[inline(always)]
    pub(super) fn each<const CHANGES: bool>(
        &mut self,
        items: &[Item],
        missing: &Missing<'_>,
        span: usize,
        mut work: impl FnMut(&Item, Option<&mut [f32]>),
    ) -> Result<(), Full> {
        let (end, bytes) = (self.end, (KEY + span) * size_of::<f32>());
        self.index.advance(self.records.len(), |slot| hash_in(&self.records, slot));
        // While the rows of one group are worked on, those of the next are on their way from
        // memory, and the lines of the index for the one after that.
        let mut slots = [[NONE; GROUP]; 2];
        self.prefetch_index(group(items, 0));
        self.prefetch_index(group(items, 1));
        self.guess(group(items, 0), bytes, &mut slots[0]);
        for number in 0..items.len().div_ceil(GROUP) {
            self.prefetch_index(group(items, number + 2));
            self.guess(group(items, number + 1), bytes, &mut slots[(number + 1) % 2]);
            for (slot, item) in slots[number % 2].iter().zip(group(items, number)) {
                let mut slot = *slot;
                if slot == NONE || key_of(self.records.row(slot)) != item.key {
                    let Some(found) = self.find_or_make(item, missing)? else {
                        work(item, None);
                        continue;
                    };
                    slot = found;
                }
                if CHANGES {
                    self.changed[slot as usize / 64] |= 1 << (slot % 64);
                }
                work(item, Some(&mut self.records.row_mut(slot)[KEY..end]));
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn prefetch_index(&self, items: &[Item]) {
        for item in items {
            self.index.prefetch(item.hash);
        }
    }

    /// Where the records of `items` seem to be, which are then asked for.
    #[inline(always)]
    fn guess(&self, items: &[Item], bytes: usize, slots: &mut [u32; GROUP]) {
        for (slot, item) in slots.iter_mut().zip(items) {
            *slot = self.index.guess(item.hash);
            if *slot != NONE {
                self.records.prefetch(*slot, bytes);
            }
        }
    }

    #[inline(never)]
    fn find_or_make(&mut self, item: &Item, missing: &Missing<'_>) -> Result<Option<u32>, Full> {
        let (records, end) = (&self.records, self.end);
        let found = self.index.find(
            item.hash,
            #[inline(always)]
            |slot| key_of(records.row(slot)) == item.key,
        );
        match missing {
            Missing::Make(maker) if found.is_none() && maker.admits(item.key) => {
                let slot = self.append(item.key, item.hash)?;
                maker.fill(item.key, &mut self.records.row_mut(slot)[KEY..end]);
                Ok(Some(slot))
            }
            _ => Ok(found),
        }
    }

    fn append(&mut self, key: u64, hash: u32) -> Result<u32, Full> {
        if self.len() == MOST {
            return Err(Full);
        }
        let slot = self.records.push();
        let row = self.records.row_mut(slot);
        row[0] = f32::from_bits(key as u32);
        row[1] = f32::from_bits((key >> 32) as u32);
        self.index.insert(hash, slot, |slot| hash_in(&self.records, slot));
        let word = slot as usize / 64;
        if word == self.changed.len() {
            self.changed.push(0);
        }
        self.changed[word] |= 1 << (slot % 64);
        Ok(slot)
    }

    /// What went since the last delta.
    pub(super) fn removed(&mut self) -> &mut Removed {
        &mut self.removed
    }

    /// Takes the keys that went since the last delta and have no row.
    pub(super) fn take_removed(&mut self) -> Vec<u64> {
        let (index, records) = (&self.index, &self.records);
        let found =
            |key: u64| index.find(index_hash(hash(key)), |slot| key_of(records.row(slot)) == key);
        self.removed.take(|key| found(key).is_none())
    }

    /// Every key with its record, and whether it changed since it was last saved.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u64, &[f32], bool)> {
        (0..self.records.len()).map(|slot| {
            let row = self.records.row(slot);
            let changed = self.changed[slot as usize / 64] >> (slot % 64) & 1 == 1;
            (key_of(row), &row[KEY..self.end], changed)
        })
    }

    /// A save looks at some of the records. `work` is told the key and whether the record changed
    /// since it was last saved; it says whether that still holds, and whether the save left anything
    /// behind that [`Shard::abandon_save`] must take back.
    pub(super) fn save(
        &mut self,
        mode: SaveMode,
        slots: std::ops::Range<usize>,
        mut work: impl FnMut(u64, &mut [f32], bool) -> (bool, bool),
    ) {
        let end = self.end;
        let saving = self.saving.get_or_insert_with(|| Saving { mode, rows: Vec::new() });
        for slot in slots.start as u32..slots.end.min(self.records.len() as usize) as u32 {
            let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
            let row = self.records.row_mut(slot);
            let (key, changed) = (key_of(row), self.changed[word] & bit != 0);
            let (still, marked) = work(key, &mut row[KEY..end], changed);
            if marked {
                saving.put(slot, true);
            }
            if changed && !still {
                self.changed[word] &= !bit;
            }
        }
    }

    /// The checkpoint of the last save is complete.
    pub(super) fn commit_save(&mut self) {
        self.saving = None;
        self.removed.commit();
    }

    /// The last save came to nothing: `undo` takes back what it did to a record, and says whether
    /// that counts as changed again.
    pub(super) fn abandon_save(&mut self, mut undo: impl FnMut(SaveMode, &mut [f32]) -> bool) {
        self.removed.give_back();
        let Some(saving) = self.saving.take() else { return };
        let end = self.end;
        for slot in (0..self.records.len()).filter(|slot| saving.has(*slot)) {
            if undo(saving.mode, &mut self.records.row_mut(slot)[KEY..end]) {
                self.changed[slot as usize / 64] |= 1 << (slot % 64);
            }
        }
    }

    /// All records were just loaded: none has changed, none is being saved.
    pub(super) fn forget_changes(&mut self) {
        self.changed.fill(0);
        self.saving = None;
        self.removed.begin();
    }

    /// Keeps the records for which `keep` says so, moves the others up, and gives memory back.
    /// Returns how many went.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(u64, &mut [f32]) -> bool) -> usize {
        let (before, end) = (self.records.len(), self.end);
        let mut kept = 0u32;
        let (notes, mut gone) = (self.removed.is_wanted(), Vec::new());
        for slot in 0..before {
            let row = self.records.row_mut(slot);
            let key = key_of(row);
            if !keep(key, &mut row[KEY..end]) {
                if notes {
                    gone.push(key);
                }
                continue;
            }
            if kept != slot {
                let row = self.records.row(slot).to_vec();
                self.records.row_mut(kept).copy_from_slice(&row);
                let bit = self.changed[slot as usize / 64] >> (slot % 64) & 1;
                let word = &mut self.changed[kept as usize / 64];
                *word = *word & !(1 << (kept % 64)) | bit << (kept % 64);
                if let Some(saving) = &mut self.saving {
                    saving.put(kept, saving.has(slot));
                }
            }
            kept += 1;
        }
        if kept == before {
            return 0;
        }
        self.removed.note(gone);
        self.records.truncate(kept);
        if let Some(saving) = &mut self.saving {
            (kept..before).for_each(|slot| saving.put(slot, false));
        }
        self.changed.truncate((kept as usize).div_ceil(64));
        if let Some(last) = self.changed.last_mut().filter(|_| !kept.is_multiple_of(64)) {
            *last &= (1 << (kept % 64)) - 1;
        }
        self.index.build(kept, |slot| hash_in(&self.records, slot));
        (before - kept) as usize
    }

    /// Drops every record.
    pub(super) fn clear(&mut self) {
        self.removed.note((0..self.records.len()).map(|slot| key_of(self.records.row(slot))));
        self.records.truncate(0);
        self.index.clear();
        self.changed = Vec::new();
        if let Some(saving) = &mut self.saving {
            saving.rows = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;
