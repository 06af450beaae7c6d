//! The ring: each rank sends to the next and receives from the one before, so every link carries
//! 2(n-1)/n of the data and no more. For large data.

use std::ops::Range;

use super::{part, pieces};
use crate::element::fold_before;
use crate::group::Turn;
use crate::{Element, Reduce, Result};

impl Turn<'_> {
    pub(super) fn ring_all_reduce<T: Element>(&self, data: &mut [T], op: Reduce) -> Result<()> {
        self.ring_reduce_scatter(data, op)?;
        self.ring_all_gather(data)
    }

    /// Afterwards this rank's part of the data, which is returned, is reduced; the rest is garbage.
    pub(super) fn ring_reduce_scatter<T: Element>(
        &self,
        data: &mut [T],
        op: Reduce,
    ) -> Result<Range<usize>> {
        let (rank, size, length) = (self.rank(), self.size(), data.len());
        // Part p starts at rank p + 1 and goes round until rank p has added its own.
        for step in 1..size {
            let out = part(length, size, (rank + size - step) % size);
            let into = part(length, size, (rank + 2 * size - step - 1) % size);
            self.ring_step(data, out, into, |from, into| fold_before(op, from, into))?;
        }
        Ok(part(length, size, rank))
    }

    fn ring_all_gather<T: Element>(&self, data: &mut [T]) -> Result<()> {
        let (rank, size, length) = (self.rank(), self.size(), data.len());
        for step in 0..size - 1 {
            let out = part(length, size, (rank + size - step) % size);
            let into = part(length, size, (rank + 2 * size - step - 1) % size);
            self.ring_step(data, out, into, |from, into| into.copy_from_slice(from))?;
        }
        Ok(())
    }

    /// Sends one part to the next rank while receiving another from the one before. A piece is
    /// received after each that is sent, so no rank is ever far ahead.
    fn ring_step<T: Element>(
        &self,
        data: &mut [T],
        out: Range<usize>,
        into: Range<usize>,
        merge: impl Fn(&[T], &mut [T]),
    ) -> Result<()> {
        let (rank, size) = (self.rank(), self.size());
        let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
        let (mut out, mut into) = (pieces::<T>(out), pieces::<T>(into));
        loop {
            let (send, receive) = (out.next(), into.next());
            if let Some(send) = &send {
                self.send(next, bytemuck::cast_slice(&data[send.clone()]))?;
            }
            if let Some(receive) = &receive {
                let into = &mut data[receive.clone()];
                let body = self.receive(before, size_of_val(into))?;
                merge(bytemuck::cast_slice(&body), into);
            }
            if send.is_none() && receive.is_none() {
                return Ok(());
            }
        }
    }

    /// Reduces by the ring, then `root` collects the parts.
    pub(super) fn ring_reduce<T: Element>(
        &self,
        data: &mut [T],
        op: Reduce,
        root: usize,
    ) -> Result<()> {
        let mut all = data.to_vec();
        let own = self.ring_reduce_scatter(&mut all, op)?;
        if self.rank() != root {
            return pieces::<T>(own)
                .try_for_each(|piece| self.send(root, bytemuck::cast_slice(&all[piece])));
        }
        data[own.clone()].copy_from_slice(&all[own]);
        for from in (0..self.size()).filter(|from| *from != root) {
            for piece in pieces::<T>(part(data.len(), self.size(), from)) {
                let into = &mut data[piece];
                let body = self.receive(from, size_of_val(into))?;
                into.copy_from_slice(bytemuck::cast_slice(&body));
            }
        }
        Ok(())
    }

    /// `root` deals out the data, a part to each rank; then the parts go round.
    pub(super) fn spread_broadcast(&self, data: &mut [u8], root: usize) -> Result<()> {
        let (rank, size, length) = (self.rank(), self.size(), data.len());
        if rank == root {
            for to in (0..size).filter(|to| *to != root) {
                for piece in pieces::<u8>(part(length, size, to)) {
                    self.send(to, &data[piece])?;
                }
            }
        } else {
            for piece in pieces::<u8>(part(length, size, rank)) {
                let into = &mut data[piece];
                into.copy_from_slice(&self.receive(root, into.len())?);
            }
        }
        self.ring_all_gather(data)
    }
}
