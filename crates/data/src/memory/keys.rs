//! The distinct keys of the samples in memory, for tables whose rows are brought before training:
//! of all samples, or of parts that each have so many at most.
//!
//! Threads find them, each those of its batches; or a card does, to which threads bring all ids. A
//! card is chosen by the number of ids: what it costs to begin there is more than what a few take.
//!
//! Trainers that hold rows together cut their data together: each has as many parts as the others, and as
//! many batches in each, for they make every step together.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bireme_engine::device::{Device, KeySet as CardKeys};
use bireme_engine::ops::owner;

use super::MemoryDataset;
use crate::{Batch, Batches, Error, Result, Slot};

/// Ids from which on a card finds the distinct ones sooner than threads do, as far as bytes tell: it
/// takes a copy of 8 bytes for each, and threads some tens of nanoseconds.
const MANY_IDS: usize = 1 << 22;

/// Ids that a thread brings to a card at a time.
const AT_ONCE: usize = 1 << 19;

/// A run of batches, and the keys that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyedPart {
    /// How many batches it has.
    pub batches: u64,
    /// Ids in all its samples, repeats included.
    pub ids: u64,
    /// The distinct keys of each group of slots, in order.
    pub keys: Vec<Vec<u64>>,
    /// Of each group: how many distinct keys of one batch lie with one rank, at most. Nothing where there is
    /// one rank.
    pub most: Vec<u64>,
}

/// What is looked for, and what a part may have.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The slots of each group.
    pub groups: &'a [Vec<String>],
    /// Bytes that a key of each group takes.
    pub bytes_of_key: &'a [usize],
    /// Bytes that the keys of a part may take.
    pub most: Option<usize>,
    /// Among how many ranks rows are spread.
    pub ranks: usize,
    /// The card that may find the keys, if there is one.
    pub device: Option<&'a Arc<dyn Device>>,
    /// The smallest of a number over all ranks, which ask together.
    pub least: &'a dyn Fn(u64) -> Result<u64>,
}

impl Wanted<'_> {
    /// Bytes that so many keys of each group take.
    fn bytes(&self, counts: impl Iterator<Item = usize>) -> usize {
        self.bytes_of_key.iter().zip(counts).map(|(bytes, count)| bytes * count).sum()
    }
}

impl MemoryDataset {
    /// The distinct keys of all samples, found by a card or by so many threads, or those of parts where
    /// they take too much.
    ///
    /// # Errors
    /// When nothing was loaded, a slot does not exist or has no ids, one batch alone takes too much, or a
    /// rank is lost.
    pub fn keyed_parts(&self, wanted: &Wanted<'_>, threads: usize) -> Result<Vec<KeyedPart>> {
        let mut all = self.keys_with(wanted.groups, threads, wanted.ranks, wanted.device)?;
        let needed = wanted.bytes(all.keys.iter().map(Vec::len));
        let fits = wanted.most.is_none_or(|most| needed <= most);
        if (wanted.least)(u64::from(fits))? == 0 {
            return self.parts(wanted);
        }
        all.batches = (wanted.least)(all.batches)?;
        Ok(vec![all])
    }

    /// The distinct keys of groups of slots, found by so many threads, for rows that are spread among so many
    /// ranks.
    ///
    /// # Errors
    /// When nothing was loaded, or a slot does not exist or has no ids.
    pub fn keys(&self, groups: &[Vec<String>], threads: usize, ranks: usize) -> Result<KeyedPart> {
        let places = self.places(groups)?;
        let (readers, slots) = (self.open(threads.max(1))?, self.settings().slots.as_slice());
        let found: Vec<Result<Found>> = thread::scope(|scope| {
            let started: Vec<_> = readers
                .into_iter()
                .map(|batches| scope.spawn(|| read_all(batches, slots, &places, ranks)))
                .collect();
            started.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
        });
        let mut found = found.into_iter();
        let mut all = found.next().unwrap_or_else(|| Ok(Found::new(places.len(), ranks)))?;
        for part in found {
            let part = part?;
            all.batches += part.batches;
            all.ids += part.ids;
            for (set, other) in all.sets.iter_mut().zip(&part.sets) {
                other.for_each(|key| set.insert(key));
            }
            all.batch.join(part.batch);
        }
        Ok(all.end())
    }

    /// As [`MemoryDataset::keys`], found by a card where there is one and ids are many; by threads all
    /// the same where it has too little memory.
    ///
    /// # Errors
    /// As [`MemoryDataset::keys`].
    pub fn keys_with(
        &self,
        groups: &[Vec<String>],
        threads: usize,
        ranks: usize,
        device: Option<&Arc<dyn Device>>,
    ) -> Result<KeyedPart> {
        let slots: usize = groups.iter().map(Vec::len).sum();
        let device = device.filter(|_| self.len().saturating_mul(slots) >= MANY_IDS);
        let found =
            device.map(|device| self.keys_by(groups, threads, ranks, device)).transpose()?;
        match found.flatten() {
            Some(found) => Ok(found),
            None => self.keys(groups, threads, ranks),
        }
    }

    /// As [`MemoryDataset::keys`], found by a card; `None` where it finds none, or has too little memory.
    ///
    /// # Errors
    /// As [`MemoryDataset::keys`].
    pub fn keys_by(
        &self,
        groups: &[Vec<String>],
        threads: usize,
        ranks: usize,
        device: &Arc<dyn Device>,
    ) -> Result<Option<KeyedPart>> {
        let places = self.places(groups)?;
        let expected = (self.len() / 4).clamp(1 << 10, 1 << 22);
        let mut sets = Vec::new();
        for _ in &places {
            match device.key_set(expected) {
                Ok(Some(set)) => sets.push(Mutex::new(set)),
                Ok(None) | Err(_) => return Ok(None),
            }
        }
        let (readers, slots) = (self.open(threads.max(1))?, self.settings().slots.as_slice());
        let counted: Vec<Result<Counted>> = thread::scope(|scope| {
            let started: Vec<_> = readers
                .into_iter()
                .map(|batches| scope.spawn(|| bring(batches, slots, &places, &sets, ranks)))
                .collect();
            started.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
        });
        let mut all = Counted::new(places.len(), ranks);
        for counted in counted {
            let counted = counted?;
            if counted.is_full {
                return Ok(None);
            }
            all.batches += counted.batches;
            all.ids += counted.ids;
            all.batch.join(counted.batch);
        }
        let sorted = sets
            .into_iter()
            .map(|set| set.into_inner().unwrap_or_else(PoisonError::into_inner).sorted());
        let keys: bireme_engine::Result<Vec<Vec<u64>>> = sorted.collect();
        let Counted { batches, ids, batch, .. } = all;
        Ok(keys.ok().map(|keys| KeyedPart { batches, ids, keys, most: batch.most }))
    }

    /// The data in runs of batches whose keys take no more than they may.
    fn parts(&self, wanted: &Wanted<'_>) -> Result<Vec<KeyedPart>> {
        let places = self.places(wanted.groups)?;
        let (mut parts, mut first) = (Vec::new(), 0);
        loop {
            let mut found = self.part_from(wanted, &places, first, u64::MAX)?;
            let batches = (wanted.least)(found.batches)?;
            if batches == 0 {
                break;
            }
            if batches < found.batches {
                // Another rank has room for fewer.
                found = self.part_from(wanted, &places, first, batches)?;
            }
            first += batches;
            parts.push(found.end());
        }
        if parts.is_empty() {
            parts.push(Found::new(places.len(), wanted.ranks).end());
        }
        Ok(parts)
    }

    /// What is found in the batches from `first` on: in so many, or in fewer if they would take too much.
    fn part_from(
        &self,
        wanted: &Wanted<'_>,
        places: &[Vec<usize>],
        first: u64,
        batches: u64,
    ) -> Result<Found> {
        let (mut batch, mut found) =
            (Batch::of(&self.settings().slots), Found::new(places.len(), wanted.ranks));
        let most = wanted.most.unwrap_or(usize::MAX);
        for mut samples in self.open(1)? {
            samples.skip(first)?;
            while found.batches < batches && samples.next(&mut batch)? {
                let new = found.keys_beyond(&batch, places)?;
                let counts = found.sets.iter().zip(&new).map(|(set, new)| set.len() + new.len());
                let bytes = wanted.bytes(counts);
                if found.batches > 0 && bytes > most {
                    return Ok(found);
                }
                if bytes > most {
                    return Err(Error::Settings(format!(
                        "the rows of a single batch take {bytes} bytes, and {most} may be used: use \
                         smaller batches, or a card with more memory"
                    )));
                }
                found.add(&batch, places)?;
            }
        }
        Ok(found)
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

fn read_all(
    mut batches: Box<dyn Batches>,
    slots: &[Slot],
    places: &[Vec<usize>],
    ranks: usize,
) -> Result<Found> {
    let (mut batch, mut found) = (Batch::of(slots), Found::new(places.len(), ranks));
    while batches.next(&mut batch)? {
        found.add(&batch, places)?;
    }
    Ok(found)
}

fn panicked<T>(_: Box<dyn std::any::Any + Send>) -> Result<T> {
    Err(Error::Settings("a thread that read keys panicked".to_owned()))
}

/// What a thread has brought to a card.
struct Counted {
    batches: u64,
    ids: u64,
    batch: OfBatch,
    /// Whether the card had no room for all of it.
    is_full: bool,
}

impl Counted {
    fn new(groups: usize, ranks: usize) -> Counted {
        Counted { batches: 0, ids: 0, batch: OfBatch::new(groups, ranks), is_full: false }
    }
}

/// Brings the ids of some batches to a card's sets, many at a time.
fn bring(
    mut batches: Box<dyn Batches>,
    slots: &[Slot],
    places: &[Vec<usize>],
    sets: &[Mutex<Box<dyn CardKeys>>],
    ranks: usize,
) -> Result<Counted> {
    let (mut batch, mut counted) = (Batch::of(slots), Counted::new(places.len(), ranks));
    let mut gathered: Vec<Vec<u64>> = places.iter().map(|_| Vec::new()).collect();
    let send = |keys: &mut Vec<u64>, set: &Mutex<Box<dyn CardKeys>>| {
        let added = set.lock().unwrap_or_else(PoisonError::into_inner).add(keys);
        keys.clear();
        added.is_ok()
    };
    while batches.next(&mut batch)? {
        counted.batches += 1;
        let gathered = gathered.iter_mut().zip(sets).zip(places);
        for (group, ((keys, set), places)) in gathered.enumerate() {
            for place in places {
                let ids = ids_of(&batch, *place)?;
                counted.ids += ids.len() as u64;
                keys.extend(ids.iter().map(|id| *id as u64));
                counted.batch.add(ids);
            }
            counted.batch.end(group);
            if keys.len() >= AT_ONCE && !send(keys, set) {
                return Ok(Counted { is_full: true, ..counted });
            }
        }
    }
    for (keys, set) in gathered.iter_mut().zip(sets) {
        counted.is_full |= !send(keys, set);
    }
    Ok(counted)
}

/// What was found in some batches.
struct Found {
    batches: u64,
    ids: u64,
    sets: Vec<KeySet>,
    batch: OfBatch,
}

impl Found {
    fn new(groups: usize, ranks: usize) -> Found {
        let sets = (0..groups).map(|_| KeySet::default()).collect();
        Found { batches: 0, ids: 0, sets, batch: OfBatch::new(groups, ranks) }
    }

    fn add(&mut self, batch: &Batch, places: &[Vec<usize>]) -> Result<()> {
        self.batches += 1;
        for (group, (set, places)) in self.sets.iter_mut().zip(places).enumerate() {
            for place in places {
                let ids = ids_of(batch, *place)?;
                self.ids += ids.len() as u64;
                ids.iter().for_each(|id| set.insert(*id as u64));
                self.batch.add(ids);
            }
            self.batch.end(group);
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
        KeyedPart { batches: self.batches, ids: self.ids, keys, most: self.batch.most }
    }
}

/// Counts the distinct keys of a batch by the rank that has their rows; nothing for one rank.
struct OfBatch {
    ranks: usize,
    /// The largest count so far, of each group.
    most: Vec<u64>,
    keys: Vec<u64>,
    counts: Vec<u64>,
}

impl OfBatch {
    fn new(groups: usize, ranks: usize) -> OfBatch {
        let most = vec![0; if ranks > 1 { groups } else { 0 }];
        OfBatch { ranks, most, keys: Vec::new(), counts: vec![0; ranks] }
    }

    fn add(&mut self, ids: &[i64]) {
        if self.ranks > 1 {
            self.keys.extend(ids.iter().map(|id| *id as u64));
        }
    }

    /// What another thread has counted counts, too.
    fn join(&mut self, other: OfBatch) {
        let pairs = self.most.iter_mut().zip(other.most);
        pairs.for_each(|(most, other)| *most = other.max(*most));
    }

    /// These were the keys of a group.
    fn end(&mut self, group: usize) {
        self.keys.sort_unstable();
        self.keys.dedup();
        self.counts.fill(0);
        for key in self.keys.drain(..) {
            self.counts[owner(key, self.ranks)] += 1;
        }
        if let (Some(most), Some(count)) = (self.most.get_mut(group), self.counts.iter().max()) {
            *most = (*most).max(*count);
        }
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
