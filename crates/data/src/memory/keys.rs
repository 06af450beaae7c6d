//! The distinct keys of the samples in memory, for tables whose rows are brought before training:
//! of all samples, or of parts that each have so many at most.

use std::thread;

use super::MemoryDataset;
use crate::{Batch, Batches, Error, Result, Slot};

/// A run of batches, and the keys that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyedPart {
    /// How many batches it has.
    pub batches: u64,
    /// Ids in all its samples, repeats included.
    pub ids: u64,
    /// The distinct keys of each group of slots, in order.
    pub keys: Vec<Vec<u64>>,
}

impl MemoryDataset {
    /// The distinct keys of groups of slots, found by so many threads.
    ///
    /// # Errors
    /// When nothing was loaded, or a slot does not exist or has no ids.
    pub fn keys(&self, groups: &[Vec<String>], threads: usize) -> Result<KeyedPart> {
        let places = self.places(groups)?;
        let (readers, slots) = (self.open(threads.max(1))?, self.settings().slots.as_slice());
        let found: Vec<Result<Found>> = thread::scope(|scope| {
            let started: Vec<_> = readers
                .into_iter()
                .map(|batches| scope.spawn(|| read_all(batches, slots, &places)))
                .collect();
            let ended = started.into_iter().map(|thread| {
                let panicked = |_| Err(Error::Settings("a thread that read keys panicked".into()));
                thread.join().unwrap_or_else(panicked)
            });
            ended.collect()
        });
        let mut found = found.into_iter();
        let mut all = found.next().unwrap_or_else(|| Ok(Found::new(places.len())))?;
        for part in found {
            let part = part?;
            all.batches += part.batches;
            all.ids += part.ids;
            for (set, other) in all.sets.iter_mut().zip(&part.sets) {
                other.for_each(|key| set.insert(key));
            }
        }
        Ok(all.end())
    }

    /// As [`MemoryDataset::keys`], in runs of batches whose keys take at most `most` bytes, where a key
    /// of each group takes so many.
    ///
    /// # Errors
    /// Also when one batch alone takes more.
    pub fn parts(
        &self,
        groups: &[Vec<String>],
        bytes_of_key: &[usize],
        most: usize,
    ) -> Result<Vec<KeyedPart>> {
        let places = self.places(groups)?;
        let mut batch = Batch::of(&self.settings().slots);
        let (mut parts, mut found) = (Vec::new(), Found::new(places.len()));
        for mut batches in self.open(1)? {
            while batches.next(&mut batch)? {
                let new = found.keys_beyond(&batch, &places)?;
                let bytes = |counts: &dyn Fn(usize) -> usize| {
                    bytes_of_key
                        .iter()
                        .enumerate()
                        .map(|(at, bytes)| bytes * counts(at))
                        .sum::<usize>()
                };
                if found.batches > 0 && bytes(&|at| found.sets[at].len() + new[at].len()) > most {
                    parts.push(std::mem::replace(&mut found, Found::new(places.len())).end());
                }
                found.add(&batch, &places)?;
                let alone = bytes(&|at| found.sets[at].len());
                if found.batches == 1 && alone > most {
                    return Err(Error::Settings(format!(
                        "the rows of a single batch take {alone} bytes, and {most} may be used: use \
                         smaller batches, or a card with more memory"
                    )));
                }
            }
        }
        parts.push(found.end());
        Ok(parts)
    }

    /// Where the slots of each group stand among all.
    fn places(&self, groups: &[Vec<String>]) -> Result<Vec<Vec<usize>>> {
        let slots = &self.settings().slots;
        let place = |name: &String| {
            slots.iter().position(|slot| slot.name == *name).ok_or_else(|| {
                Error::Settings(format!(
                    "the keys of a table come from `{name}`, which is no slot of the dataset"
                ))
            })
        };
        groups.iter().map(|group| group.iter().map(place).collect()).collect()
    }
}

fn read_all(mut batches: Box<dyn Batches>, slots: &[Slot], places: &[Vec<usize>]) -> Result<Found> {
    let (mut batch, mut found) = (Batch::of(slots), Found::new(places.len()));
    while batches.next(&mut batch)? {
        found.add(&batch, places)?;
    }
    Ok(found)
}

/// What was found in some batches.
struct Found {
    batches: u64,
    ids: u64,
    sets: Vec<KeySet>,
}

impl Found {
    fn new(groups: usize) -> Found {
        Found { batches: 0, ids: 0, sets: (0..groups).map(|_| KeySet::default()).collect() }
    }

    fn add(&mut self, batch: &Batch, places: &[Vec<usize>]) -> Result<()> {
        self.batches += 1;
        for (set, places) in self.sets.iter_mut().zip(places) {
            for place in places {
                let ids = ids_of(batch, *place)?;
                self.ids += ids.len() as u64;
                ids.iter().for_each(|id| set.insert(*id as u64));
            }
        }
        Ok(())
    }

    /// The keys of a batch that are not among those found.
    fn keys_beyond(&self, batch: &Batch, places: &[Vec<usize>]) -> Result<Vec<KeySet>> {
        let mut new: Vec<KeySet> = places.iter().map(|_| KeySet::default()).collect();
        for ((new, set), places) in new.iter_mut().zip(&self.sets).zip(places) {
            for place in places {
                let ids = ids_of(batch, *place)?.iter().map(|id| *id as u64);
                ids.filter(|key| !set.contains(*key)).for_each(|key| new.insert(key));
            }
        }
        Ok(new)
    }

    fn end(self) -> KeyedPart {
        let keys = self.sets.into_iter().map(KeySet::sorted).collect();
        KeyedPart { batches: self.batches, ids: self.ids, keys }
    }
}

fn ids_of(batch: &Batch, place: usize) -> Result<&[i64]> {
    batch.tensors()[place].as_slice::<i64>().map_err(|error| {
        let name = &batch.slots()[place].name;
        Error::Settings(format!(
            "slot `{name}` has no ids, but a table's keys come from it: {error}"
        ))
    })
}

/// A set of keys: open addressing with linear probing, at most half full. 0 stands for no key.
#[derive(Default)]
struct KeySet {
    slots: Vec<u64>,
    len: usize,
    has_zero: bool,
}

impl KeySet {
    fn len(&self) -> usize {
        self.len + usize::from(self.has_zero)
    }

    fn contains(&self, key: u64) -> bool {
        match key {
            0 => self.has_zero,
            _ => !self.slots.is_empty() && self.slots[self.place(key)] == key,
        }
    }

    fn insert(&mut self, key: u64) {
        if key == 0 {
            self.has_zero = true;
            return;
        }
        if (self.len + 1) * 2 > self.slots.len() {
            let larger = vec![0; (self.slots.len() * 2).max(1024)];
            let old = std::mem::replace(&mut self.slots, larger);
            for key in old.into_iter().filter(|key| *key != 0) {
                let place = self.place(key);
                self.slots[place] = key;
            }
        }
        let place = self.place(key);
        self.len += usize::from(self.slots[place] == 0);
        self.slots[place] = key;
    }

    /// Where a key is, or would be.
    fn place(&self, key: u64) -> usize {
        let shift = 64 - self.slots.len().trailing_zeros();
        let mut at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize;
        while self.slots[at] != 0 && self.slots[at] != key {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    fn for_each(&self, look: impl FnMut(u64)) {
        let zero = self.has_zero.then_some(0);
        self.slots.iter().copied().filter(|key| *key != 0).chain(zero).for_each(look);
    }

    fn sorted(self) -> Vec<u64> {
        let mut keys = Vec::with_capacity(self.len());
        self.for_each(|key| keys.push(key));
        keys.sort_unstable();
        keys
    }
}
