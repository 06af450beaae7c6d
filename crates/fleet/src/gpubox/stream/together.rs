//! What several trainers decide together for a batch of each: who has the rows of its keys, how large
//! variables are, and how many rows one asks of another.
//!
//! Each trainer's reading thread makes these calls for each batch, in the order of batches, on a group of
//! their own; so all are as far ahead as the slowest, and end at the same batch. A key's row lies with its
//! owner, which decides alone who leaves: nobody asks another for a row of before.

use bireme_engine::ops::PassIndex;
use bireme_engine::tensor::Tensor;

use super::super::ranks::{Asked, Ranks, room_for};
use super::capacity::Need;
use super::rows::{Change, Rows};
use crate::Result;

/// The trainers of a stream.
pub(super) struct Together(Ranks);

/// Where the steps of a trainer find the rows of its own samples, of one table: those of the batch at hand.
#[derive(Default)]
pub(super) struct Shown {
    index: PassIndex,
    /// How many rows one trainer may ask of another.
    room: u64,
}

/// The fewest bytes that the rows of a trainer may take.
pub(super) fn least_budget(ranks: &Ranks, budget: Option<usize>) -> Result<Option<usize>> {
    const NO_LIMIT: u64 = i64::MAX as u64;
    let own = budget.map_or(NO_LIMIT, |bytes| (bytes as u64).min(NO_LIMIT));
    let least = ranks.least(own)?;
    Ok((least < NO_LIMIT).then_some(least as usize))
}

impl Together {
    pub(super) fn new(ranks: Ranks) -> Together {
        Together(ranks)
    }

    /// Whether all have another batch.
    pub(super) fn all_have(&self, mine: bool) -> Result<bool> {
        Ok(self.0.least(u64::from(mine))? == 1)
    }

    /// Asks the owners of the keys of a batch for their rows. The keys of each table become those that all
    /// trainers ask of this one.
    pub(super) fn ask(&self, keys: &mut [Vec<u64>]) -> Result<Vec<Asked>> {
        let ask = |keys: &mut Vec<u64>| {
            keys.sort_unstable();
            keys.dedup();
            let asked = self.0.ask(keys)?;
            *keys = asked.own();
            Ok(asked)
        };
        keys.iter_mut().map(ask).collect()
    }

    /// Makes what each table needs as much as any trainer does, so that all have variables of one size.
    /// Returns the most keys that one asks of another, of each table.
    pub(super) fn agree(&self, needs: &mut [Need], asked: &[Asked]) -> Result<Vec<u64>> {
        let mut numbers: Vec<i64> = Vec::with_capacity(4 * needs.len());
        for (need, asked) in needs.iter().zip(asked) {
            let own = [need.held, need.named, need.new].map(|number| number as i64);
            numbers.extend(own.into_iter().chain([asked.most() as i64]));
        }
        self.0.most_of_each(&mut numbers)?;
        let (all, _) = numbers.as_chunks::<4>();
        for (need, [held, named, new, _]) in needs.iter_mut().zip(all) {
            [need.held, need.named, need.new] = [*held, *named, *new].map(|number| number as usize);
        }
        Ok(all.iter().map(|[.., most]| *most as u64).collect())
    }

    /// Tells the others the rows of one table that they asked for, and has this trainer's step find those
    /// that it did.
    pub(super) fn show(
        &self,
        asked: &Asked,
        rows: &Rows,
        most: u64,
        shown: &mut Shown,
        change: &mut Change,
    ) -> Result<()> {
        let slots = shown.index.tensor().rows();
        // As many slots as before, if they suffice: a step is recorded for each number.
        let index = self.0.answer(asked, rows.index(), rows.capacity(), slots / 2)?;
        let is_larger = index.tensor().rows() != slots;
        change.index = (is_larger || !shown.is_shown()).then(|| index.tensor().clone());
        (change.slots, change.words) = match &change.index {
            Some(_) => (Vec::new(), Vec::new()),
            None => differences(shown.index.tensor(), index.tensor()),
        };
        shown.index = index;
        let room = room_for(most, shown.room);
        change.room = (room != shown.room).then_some(room);
        shown.room = room;
        Ok(())
    }
}

impl Shown {
    /// Whether there was a batch before.
    fn is_shown(&self) -> bool {
        self.room > 0
    }
}

/// The slots of an index that have become others, and what they hold.
fn differences(old: &Tensor, new: &Tensor) -> (Vec<i64>, Vec<i64>) {
    let words = |tensor: &Tensor| tensor.as_slice::<i64>().unwrap_or_default().to_vec();
    let (old, new) = (words(old), words(new));
    let (mut slots, mut changed) = (Vec::new(), Vec::new());
    let pairs = old.as_chunks::<2>().0.iter().zip(new.as_chunks::<2>().0);
    for (slot, (_, now)) in pairs.enumerate().filter(|(_, (old, now))| old != now) {
        slots.push(slot as i64);
        changed.extend_from_slice(now);
    }
    (slots, changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_written() {
        let index = |keys: &[u64]| {
            let mut index = PassIndex::with_room(8);
            for key in keys {
                index.insert(*key, key + 1);
            }
            index
        };
        let (old, new) = (index(&[3, 5, 8]), index(&[5, 8, 9]));
        let (slots, words) = differences(old.tensor(), new.tensor());
        let mut written = old.tensor().clone();
        let all = written.as_mut_slice::<i64>().unwrap();
        for (slot, words) in slots.iter().zip(words.chunks(2)) {
            all[2 * *slot as usize..][..2].copy_from_slice(words);
        }
        assert_eq!(written, *new.tensor());
        assert!(slots.len() < 4, "{slots:?}");
        assert!(differences(new.tensor(), new.tensor()).0.is_empty());
    }
}
