//! Calls that move bytes through shared memory: in each phase every rank gives as much as fits, and
//! takes what is for it.

use super::{INPUT, LINE, Local};
use crate::element::fold;
use crate::group::Turn;
use crate::{Element, Reduce, Result};

impl Local {
    pub(crate) fn broadcast(&self, turn: &Turn<'_>, data: &mut [u8], root: usize) -> Result<()> {
        let is_root = self.rank == root;
        for piece in cut(data.len(), INPUT / 4) {
            let phase = self.next_phase();
            let piece = &mut data[piece];
            if is_root {
                self.give(phase, 0, piece);
            }
            self.post(turn);
            // All, as the next but one overwrites this.
            self.wait_all(turn, phase)?;
            if !is_root {
                piece.copy_from_slice(self.given(root, phase, 0, piece.len()));
            }
        }
        Ok(())
    }

    pub(crate) fn all_gather(&self, turn: &Turn<'_>, part: &[u8], out: &mut [u8]) -> Result<()> {
        for piece in cut(part.len(), INPUT / 4) {
            let phase = self.next_phase();
            self.give(phase, 0, &part[piece.clone()]);
            self.post(turn);
            self.wait_all(turn, phase)?;
            for (rank, out) in out.chunks_exact_mut(part.len().max(1)).enumerate() {
                out[piece.clone()].copy_from_slice(self.given(rank, phase, 0, piece.len()));
            }
        }
        Ok(())
    }

    pub(crate) fn all_to_all(&self, turn: &Turn<'_>, parts: &[u8], out: &mut [u8]) -> Result<()> {
        let length = parts.len() / self.size;
        let most = self.share(INPUT);
        for piece in cut(length, most) {
            let phase = self.next_phase();
            for (to, part) in parts.chunks_exact(length.max(1)).enumerate() {
                self.give(phase, to * most, &part[piece.clone()]);
            }
            self.post(turn);
            self.wait_all(turn, phase)?;
            for (from, out) in out.chunks_exact_mut(length.max(1)).enumerate() {
                let given = self.given(from, phase, self.rank * most, piece.len());
                out[piece.clone()].copy_from_slice(given);
            }
        }
        Ok(())
    }

    pub(crate) fn scatter(
        &self,
        turn: &Turn<'_>,
        parts: &[u8],
        out: &mut [u8],
        root: usize,
    ) -> Result<()> {
        let (length, most) = (out.len(), self.share(INPUT));
        for piece in cut(length, most) {
            let phase = self.next_phase();
            if self.rank == root {
                for (to, part) in parts.chunks_exact(length.max(1)).enumerate() {
                    self.give(phase, to * most, &part[piece.clone()]);
                }
            }
            self.post(turn);
            self.wait_all(turn, phase)?;
            let given = self.given(root, phase, self.rank * most, piece.len());
            out[piece].copy_from_slice(given);
        }
        Ok(())
    }

    pub(crate) fn reduce_scatter<T: Element>(
        &self,
        turn: &Turn<'_>,
        data: &[T],
        out: &mut [T],
        op: Reduce,
    ) -> Result<()> {
        let (length, most) = (out.len(), self.share(INPUT / 2));
        for piece in cut(length, most / size_of::<T>()) {
            let phase = self.next_phase();
            for to in (0..self.size).filter(|to| *to != self.rank) {
                let part = &data[to * length..(to + 1) * length];
                self.give(phase, to * most, &part[piece.clone()]);
            }
            self.post(turn);
            self.wait_all(turn, phase)?;
            let own = &data[self.rank * length..(self.rank + 1) * length];
            let out = &mut out[piece.clone()];
            out.copy_from_slice(&own[piece]);
            for step in 1..self.size {
                let other = (self.rank + step) % self.size;
                fold(op, out, self.given(other, phase, self.rank * most, out.len()));
            }
        }
        Ok(())
    }

    /// Parts of any size from each rank to each: first their sizes, then as many phases as the
    /// largest needs.
    pub(crate) fn all_to_all_varied(
        &self,
        turn: &Turn<'_>,
        parts: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>> {
        let sizes: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
        let phase = self.next_phase();
        self.give(phase, 0, &sizes);
        self.post(turn);
        self.wait_all(turn, phase)?;
        let all: Vec<Vec<u64>> =
            (0..self.size).map(|rank| self.given(rank, phase, 0, self.size).to_vec()).collect();
        let longest = all.iter().flatten().copied().max().unwrap_or(0) as usize;
        let mut out: Vec<Vec<u8>> =
            all.iter().map(|sizes| Vec::with_capacity(sizes[self.rank] as usize)).collect();
        let most = self.share(INPUT);
        for piece in cut(longest, most).filter(|piece| !piece.is_empty()) {
            let phase = self.next_phase();
            let of = |length: usize| piece.start.min(length)..piece.end.min(length);
            for (to, part) in parts.iter().enumerate() {
                self.give(phase, to * most, &part[of(part.len())]);
            }
            self.post(turn);
            self.wait_all(turn, phase)?;
            for (from, out) in out.iter_mut().enumerate() {
                let size = of(all[from][self.rank] as usize).len();
                out.extend_from_slice(self.given(from, phase, self.rank * most, size));
            }
        }
        Ok(out)
    }

    /// Bytes of an area for each rank, a multiple of a cache line.
    fn share(&self, bytes: usize) -> usize {
        bytes / self.size / LINE * LINE
    }
}

/// Cuts `length` into pieces of at most `most`; at least one, as an empty call is a call too.
fn cut(length: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let count = length.div_ceil(most).max(1);
    (0..count).map(move |piece| piece * most..length.min((piece + 1) * most))
}
