//! What ranks that hold the rows of a pass together tell each other when a pass begins.
//!
//! The row of a key lies with its owner ([`owner`]). Each rank asks the owners for the keys of its own samples;
//! they give them rows and say which. All ranks make these calls in the same order, on a group of their own.

use bireme_collective::{Group, Reduce};
use bireme_engine::ops::{PassIndex, global_row, owner};

use crate::{Error, Result};

/// Rooms are a multiple of this, or of an eighth of their size: a batch with a few keys more needs no new step.
const ROUND: u64 = 64;

/// The ranks of a job, as one of them sees the others.
pub(super) struct Ranks {
    group: Group,
}

/// Keys that were asked for when a pass began, of one table.
pub(super) struct Asked {
    /// Those of this rank's samples, by owner.
    mine: Vec<Vec<u64>>,
    /// Those that each rank asks of this one.
    theirs: Vec<Vec<u64>>,
}

impl Asked {
    /// All keys that this rank has rows for in the pass, in order.
    pub(super) fn own(&self) -> Vec<u64> {
        let mut own = self.theirs.concat();
        own.sort_unstable();
        own.dedup();
        own
    }

    /// The most keys that this rank asks of one.
    pub(super) fn most(&self) -> u64 {
        self.mine.iter().map(Vec::len).max().unwrap_or(0) as u64
    }
}

impl Ranks {
    /// Ranks that talk apart from everybody else of `group`; all ranks make this call together.
    pub(super) fn apart(group: &Group) -> Result<Ranks> {
        let all: Vec<usize> = (0..group.size()).collect();
        let group = group.subgroup(&all)?;
        let none = || Error::Config("this process is no rank of its own group".to_owned());
        Ok(Ranks { group: group.ok_or_else(none)? })
    }

    /// The same ranks, talking apart from these; all of them make this call together.
    pub(super) fn beside(&self) -> Result<Ranks> {
        Ranks::apart(&self.group)
    }

    pub(super) fn size(&self) -> usize {
        self.group.size()
    }

    pub(super) fn rank(&self) -> usize {
        self.group.rank()
    }

    /// Asks the owners of keys for their rows.
    pub(super) fn ask(&self, keys: &[u64]) -> Result<Asked> {
        let mut mine = vec![Vec::new(); self.size()];
        keys.iter().for_each(|key| mine[owner(*key, self.size())].push(*key));
        let lists: Vec<&[u8]> = mine.iter().map(|keys| bytemuck::cast_slice(keys)).collect();
        let theirs = self.group.all_to_all_varied(&lists)?;
        let theirs = theirs.iter().map(|list| numbers(list)).collect::<Result<Vec<Vec<u64>>>>()?;
        Ok(Asked { mine, theirs })
    }

    /// Tells the others the rows of what they asked for, and returns the rows of what this rank did: among
    /// all, where each rank has `rows`; in an index with room for `room` keys, or more if it needs that.
    pub(super) fn answer(
        &self,
        asked: &Asked,
        own: &PassIndex,
        rows: usize,
        room: usize,
    ) -> Result<PassIndex> {
        let row = |key: &u64| {
            let row = own.row(*key).and_then(|row| u32::try_from(row).ok());
            row.ok_or_else(|| Error::Config(format!("key {key} was asked for and has no row")))
        };
        let told = asked.theirs.iter().map(|keys| keys.iter().map(row).collect());
        let told = told.collect::<Result<Vec<Vec<u32>>>>()?;
        let lists: Vec<&[u8]> = told.iter().map(|rows| bytemuck::cast_slice(rows)).collect();
        let heard = self.group.all_to_all_varied(&lists)?;
        let mut index =
            PassIndex::with_room(asked.mine.iter().map(Vec::len).sum::<usize>().max(room));
        for (rank, (keys, list)) in asked.mine.iter().zip(&heard).enumerate() {
            let found = numbers::<u32>(list)?;
            if found.len() != keys.len() {
                return Err(Error::Config(format!(
                    "rank {rank} was asked for {} keys and has answered {}",
                    keys.len(),
                    found.len()
                )));
            }
            for (key, row) in keys.iter().zip(found) {
                index.insert(*key, global_row(rank, u64::from(row), rows));
            }
        }
        Ok(index)
    }

    /// The largest of a number over all ranks.
    pub(super) fn most(&self, number: u64) -> Result<u64> {
        self.reduced(number, Reduce::Max)
    }

    /// The smallest of a number over all ranks.
    pub(super) fn least(&self, number: u64) -> Result<u64> {
        self.reduced(number, Reduce::Min)
    }

    /// Makes each of some numbers the largest that a rank has there.
    pub(super) fn most_of_each(&self, numbers: &mut [i64]) -> Result<()> {
        Ok(self.group.all_reduce(numbers, Reduce::Max)?)
    }

    fn reduced(&self, number: u64, how: Reduce) -> Result<u64> {
        let mut number = [number as i64];
        self.group.all_reduce(&mut number, how)?;
        Ok(number[0] as u64)
    }
}

/// Room for batches with at most so many keys of one rank. What there is stays if it suffices and is not far
/// too large.
pub(super) fn room_for(keys: u64, now: u64) -> u64 {
    // The first place of each rank is nobody's.
    let least = keys + 1;
    if now >= least && now <= 2 * least.max(ROUND) {
        return now;
    }
    least.next_multiple_of(ROUND.max(least.next_power_of_two() / 8))
}

/// The numbers in some bytes, which need not be aligned.
fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Result<Vec<T>> {
    if !bytes.len().is_multiple_of(size_of::<T>()) {
        return Err(Error::Config("another rank sent half a number".to_owned()));
    }
    Ok(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_stays_while_it_fits() {
        assert_eq!(room_for(10, 0), 64);
        assert_eq!(room_for(63, 64), 64);
        assert_eq!(room_for(64, 64), 128);
        assert_eq!(room_for(5000, 0), 5120);
        assert_eq!(room_for(3000, 5120), 5120);
        assert_eq!(room_for(1000, 5120), 1024);
    }

    #[test]
    fn owners_are_all_ranks_alike() {
        for ranks in [1, 2, 3, 8] {
            let mut counts = vec![0usize; ranks];
            // Keys that follow each other, and keys whose lower bits are all the same.
            (0..8000u64).for_each(|key| counts[owner(key, ranks)] += 1);
            (0..8000u64).for_each(|key| counts[owner(key << 40, ranks)] += 1);
            let mean = 16_000 / ranks;
            assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 5), "{counts:?}");
        }
    }
}
