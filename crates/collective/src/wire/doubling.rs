//! Recursive doubling: in each round a rank meets a partner twice as far away, so log n rounds are
//! enough. For small data all of it goes in each round; for middle sizes the data is halved on the
//! way there and doubled on the way back.
//!
//! Where the ranks are no power of two, the first few take one more rank each under their wing.

use std::ops::Range;

use super::pieces;
use crate::element::{fold, fold_before};
use crate::group::Turn;
use crate::{Element, Reduce, Result};

impl Turn<'_> {
    pub(super) fn doubling_all_reduce<T: Element>(&self, data: &mut [T], op: Reduce) -> Result<()> {
        self.folded(data, op, |data, ranks| {
            let mut distance = 1;
            while distance < ranks {
                let partner = self.rank() ^ distance;
                self.send(partner, bytemuck::cast_slice(data))?;
                let body = self.receive(partner, size_of_val(data))?;
                self.merge(op, partner, bytemuck::cast_slice(&body), data);
                distance *= 2;
            }
            Ok(())
        })
    }

    pub(super) fn halving_all_reduce<T: Element>(&self, data: &mut [T], op: Reduce) -> Result<()> {
        self.folded(data, op, |data, ranks| {
            let mut whole = 0..data.len();
            let mut halves = Vec::new();
            let mut distance = ranks / 2;
            while distance > 0 {
                let partner = self.rank() ^ distance;
                let middle = whole.start + whole.len() / 2;
                let (low, high) = (whole.start..middle, middle..whole.end);
                let (keep, give) = if partner > self.rank() { (low, high) } else { (high, low) };
                self.swap(partner, data, give.clone(), keep.clone(), |from, into| {
                    self.merge(op, partner, from, into);
                })?;
                halves.push((partner, give));
                whole = keep;
                distance /= 2;
            }
            // What was given away comes back reduced, in the opposite order.
            while let Some((partner, given)) = halves.pop() {
                self.swap(partner, data, whole.clone(), given.clone(), |from, into| {
                    into.copy_from_slice(from);
                })?;
                whole = whole.start.min(given.start)..whole.end.max(given.end);
            }
            Ok(())
        })
    }

    /// Runs `work` among as many ranks as the largest power of two; the others hand their data in
    /// and get the result.
    fn folded<T: Element>(
        &self,
        data: &mut [T],
        op: Reduce,
        work: impl FnOnce(&mut [T], usize) -> Result<()>,
    ) -> Result<()> {
        let ranks = 1 << self.size().ilog2();
        let all = 0..data.len();
        let Some(host) = self.rank().checked_sub(ranks) else {
            let guest = self.rank() + ranks;
            let has_guest = guest < self.size();
            if has_guest {
                self.take(guest, data, all.clone(), |from, into| fold(op, into, from))?;
            }
            work(data, ranks)?;
            return if has_guest { self.give(guest, data, all) } else { Ok(()) };
        };
        self.give(host, data, all.clone())?;
        self.take(host, data, all, |from, into| into.copy_from_slice(from))
    }

    /// Puts the data of the lower rank first: both partners compute the same bits.
    fn merge<T: Element>(&self, op: Reduce, partner: usize, from: &[T], into: &mut [T]) {
        if partner < self.rank() { fold_before(op, from, into) } else { fold(op, into, from) }
    }

    fn swap<T: Element>(
        &self,
        partner: usize,
        data: &mut [T],
        give: Range<usize>,
        take: Range<usize>,
        merge: impl Fn(&[T], &mut [T]),
    ) -> Result<()> {
        // Middle sizes fit into what a channel holds, so both may send first.
        self.give(partner, data, give)?;
        self.take(partner, data, take, merge)
    }

    fn give<T: Element>(&self, to: usize, data: &[T], range: Range<usize>) -> Result<()> {
        pieces::<T>(range).try_for_each(|piece| self.send(to, bytemuck::cast_slice(&data[piece])))
    }

    fn take<T: Element>(
        &self,
        from: usize,
        data: &mut [T],
        range: Range<usize>,
        merge: impl Fn(&[T], &mut [T]),
    ) -> Result<()> {
        for piece in pieces::<T>(range) {
            let into = &mut data[piece];
            let body = self.receive(from, size_of_val(into))?;
            merge(bytemuck::cast_slice(&body), into);
        }
        Ok(())
    }
}
