//! Which key has which row, of one table of a stream: known to the host alone, ahead of the card.
//!
//! A batch names keys; those without a row get one, and where none is free the keys that were not
//! named for longest leave. Keys of the batch itself never do. What is decided here is carried out in
//! the order of batches, before the batch is trained ([`super::moves`]); so a row may have another
//! key for each batch, and every batch finds its own.

use bireme_engine::ops::PassIndex;
use bireme_engine::tensor::Tensor;

/// As many rows leave at once as this part of all, so that not every batch asks the card for some.
const BLOCK_PART: usize = 16;
/// And at most so many, unless a batch needs more.
const MAX_BLOCK: usize = 1 << 14;

/// The rows of one table.
pub(super) struct Rows {
    index: PassIndex,
    /// What each row is; number 0 is nobody's, and stands for both ends of the order of use.
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Place {
    key: u64,
    /// The batch that named it last.
    batch: u64,
    /// Its neighbours in the order of use.
    older: u32,
    newer: u32,
}

/// The keys of a batch.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Rows of those that have one, each once.
    pub(super) known: Vec<u32>,
    /// The others, in order, each once.
    pub(super) new: Vec<u64>,
}

/// What becomes another before a batch is trained, in this order.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Rows whose records leave, and their keys.
    pub(super) leaving: Vec<u32>,
    pub(super) leaving_keys: Vec<u64>,
    /// Variables of another size.
    pub(super) resized: Option<Resized>,
    /// Rows that get records, and their keys.
    pub(super) entering: Vec<u32>,
    pub(super) entering_keys: Vec<u64>,
    /// The index: all of it, or some slots with what they hold then.
    pub(super) index: Option<Tensor>,
    pub(super) slots: Vec<i64>,
    pub(super) words: Vec<i64>,
    /// With several trainers: how many rows one may ask of another, where that is another number.
    pub(super) room: Option<u64>,
    /// The rows of the batch.
    pub(super) named: Vec<u32>,
}

/// Variables of another size.
#[derive(Debug)]
pub(super) struct Resized {
    pub(super) capacity: usize,
    /// Where the rows that stay come from, by their new number less 1; `None` where all keep their
    /// numbers.
    pub(super) from: Option<Vec<u32>>,
}

impl Default for Rows {
    fn default() -> Rows {
        Rows { index: PassIndex::default(), places: vec![Place::default()], free: Vec::new() }
    }
}

impl Rows {
    /// Rows of the variables; 0 before there are any.
    pub(super) fn capacity(&self) -> usize {
        if self.places.len() == 1 { 0 } else { self.places.len() }
    }

    /// Which key has which row.
    pub(super) fn index(&self) -> &PassIndex {
        &self.index
    }

    /// How many keys have rows.
    pub(super) fn held(&self) -> usize {
        self.index.len()
    }

    /// Looks for the keys of a batch; those that have a row are now the last used ones. Batches have
    /// numbers that rise from 1.
    pub(super) fn name(&mut self, keys: impl Iterator<Item = u64>, batch: u64) -> Named {
        let mut named = Named::default();
        let keys: Vec<u64> = keys.collect();
        let mut rows = vec![0; keys.len()];
        // Row 0 is nobody's.
        self.index.find(&keys, None, 0, &mut rows);
        for (key, row) in keys.into_iter().zip(rows) {
            if row == 0 {
                named.new.push(key);
                continue;
            }
            if self.places[row as usize].batch != batch {
                self.unlink(row);
                self.link_newest(row);
                self.places[row as usize].batch = batch;
                named.known.push(row);
            }
        }
        named.new.sort_unstable();
        named.new.dedup();
        named
    }

    /// Gives the keys of a batch rows in variables of `capacity` rows, which are enough for them and
    /// for row 0.
    pub(super) fn place(&mut self, named: Named, batch: u64, capacity: usize) -> Change {
        let mut change = Change { named: named.known, ..Change::default() };
        let mut changed = Vec::new();
        let needed = (self.held() + named.new.len() + 1).saturating_sub(capacity);
        if needed > 0 {
            let block = needed.max((capacity / BLOCK_PART).min(MAX_BLOCK));
            let most = self.held() - change.named.len();
            (0..block.min(most)).for_each(|_| self.leave(batch, &mut change, &mut changed));
        }
        let is_resized = capacity != self.capacity();
        if is_resized {
            change.resized = Some(self.resize(capacity, &mut change.named));
        }
        for key in named.new {
            let row = self.free.pop().expect("the capacity is enough for the batch");
            changed.push(self.index.insert(key, u64::from(row)));
            self.places[row as usize] = Place { key, batch, ..Place::default() };
            self.link_newest(row);
            change.entering.push(row);
            change.entering_keys.push(key);
        }
        change.named.extend_from_slice(&change.entering);
        match is_resized {
            true => change.index = Some(self.index.tensor().clone()),
            false => self.describe_slots(changed, &mut change),
        }
        change
    }

    /// The key that was not named for longest leaves.
    fn leave(&mut self, batch: u64, change: &mut Change, changed: &mut Vec<usize>) {
        let row = self.places[0].newer;
        let Place { key, batch: last, .. } = self.places[row as usize];
        assert!(row != 0 && last != batch, "only rows that the batch does not name leave");
        self.unlink(row);
        self.index.remove(key, changed);
        self.free.push(row);
        change.leaving.push(row);
        change.leaving_keys.push(key);
    }

    /// Makes room for `capacity` rows; where they become fewer, those that stay are numbered anew, the
    /// rows of the batch among them.
    fn resize(&mut self, capacity: usize, named: &mut [u32]) -> Resized {
        let old = self.places.len();
        if capacity > old {
            self.places.resize(capacity, Place::default());
            self.free.splice(0..0, (old as u32..capacity as u32).rev());
            let mut index = PassIndex::with_room(capacity);
            self.index.for_each(|key, row| {
                index.insert(key, row);
            });
            self.index = index;
            return Resized { capacity, from: None };
        }
        let mut from = Vec::with_capacity(self.held());
        let mut row = self.places[0].newer;
        while row != 0 {
            from.push(row);
            row = self.places[row as usize].newer;
        }
        let places = std::mem::take(&mut self.places);
        *self = Rows { index: PassIndex::with_room(capacity), ..Rows::default() };
        self.places.resize(capacity, Place::default());
        let mut numbers = vec![0; places.len()];
        for (at, old) in from.iter().enumerate() {
            let Place { key, batch, .. } = places[*old as usize];
            let row = at as u32 + 1;
            self.index.insert(key, u64::from(row));
            self.places[row as usize] = Place { key, batch, ..Place::default() };
            self.link_newest(row);
            numbers[*old as usize] = row;
        }
        self.free = (from.len() as u32 + 1..capacity as u32).rev().collect();
        named.iter_mut().for_each(|row| *row = numbers[*row as usize]);
        Resized { capacity, from: Some(from) }
    }

    /// Says what slots of the index hold now.
    fn describe_slots(&self, mut changed: Vec<usize>, change: &mut Change) {
        changed.sort_unstable();
        changed.dedup();
        let words = self.index.tensor().as_slice::<i64>().unwrap_or_default();
        for slot in changed {
            change.slots.push(slot as i64);
            change.words.extend_from_slice(&words[2 * slot..2 * slot + 2]);
        }
    }

    fn unlink(&mut self, row: u32) {
        let Place { older, newer, .. } = self.places[row as usize];
        self.places[older as usize].newer = newer;
        self.places[newer as usize].older = older;
    }

    fn link_newest(&mut self, row: u32) {
        let newest = self.places[0].older;
        self.places[newest as usize].newer = row;
        self.places[0].older = row;
        let place = &mut self.places[row as usize];
        (place.older, place.newer) = (newest, 0);
    }
}

#[cfg(test)]
mod tests;
