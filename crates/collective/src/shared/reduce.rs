//! Reductions in shared memory. Small data is given whole to everyone, and all compute the same.
//! Large data goes in chunks: every rank reduces its share of a chunk and all read the result, while
//! the next chunk is being given; chunks are small enough to stay in the caches.
#![expect(unsafe_code, reason = "other ranks' memory is read here")]

use std::ops::Range;

use super::copy::{self, Copy};
use super::{INPUT, LINE, Local, OUTPUT};
use crate::element::{fold, fold_before};
use crate::group::Turn;
use crate::{Element, Reduce, Result};

/// Up to this many bytes everyone reduces everything.
const SMALL: usize = 16 << 10;
/// Bytes that are reduced at a time: the first cache holds them and what they are reduced with.
const BLOCK: usize = 8 << 10;
/// Bytes of a chunk, all shares together.
const CHUNK: usize = 512 << 10;

impl Local {
    pub(crate) fn all_reduce<T: Element>(
        &self,
        turn: &Turn<'_>,
        data: &mut [T],
        op: Reduce,
    ) -> Result<()> {
        if size_of_val(data) <= SMALL {
            return self.all_reduce_small(turn, data, op);
        }
        self.reduce_chunks(turn, data, op, true)
    }

    pub(crate) fn reduce<T: Element>(
        &self,
        turn: &Turn<'_>,
        data: &mut [T],
        op: Reduce,
        root: usize,
    ) -> Result<()> {
        if self.rank == root {
            return self.gather_at(turn, data, op, root);
        }
        self.gather_at(turn, &mut data.to_vec(), op, root)
    }

    /// Like a reduction to `root`, but what others have afterwards is garbage.
    pub(crate) fn gather_at<T: Element>(
        &self,
        turn: &Turn<'_>,
        data: &mut [T],
        op: Reduce,
        root: usize,
    ) -> Result<()> {
        self.reduce_chunks(turn, data, op, self.rank == root)
    }

    fn all_reduce_small<T: Element>(
        &self,
        turn: &Turn<'_>,
        data: &mut [T],
        op: Reduce,
    ) -> Result<()> {
        let phase = self.next_phase();
        self.give(phase, 0, data);
        self.post(turn);
        self.wait_all(turn, phase)?;
        let (rank, length) = (self.rank, data.len());
        // In the order of the ranks, so that all compute the same bits.
        if rank > 0 {
            if rank == 1 {
                fold_before(op, self.given(0, phase, 0, length), data);
            } else {
                data.copy_from_slice(self.given(0, phase, 0, length));
                for other in 1..=rank {
                    fold(op, data, self.given(other, phase, 0, length));
                }
            }
        }
        for other in rank + 1..self.size {
            fold(op, data, self.given(other, phase, 0, length));
        }
        Ok(())
    }

    /// Reduces chunk by chunk; who `wants` takes the others' shares too.
    fn reduce_chunks<T: Element>(
        &self,
        turn: &Turn<'_>,
        data: &mut [T],
        op: Reduce,
        wants: bool,
    ) -> Result<()> {
        let chunks = Chunks::of::<T>(data.len(), self.size);
        let first = self.next_phase();
        self.give_chunk(first, &chunks, 0, data);
        self.post(turn);
        for chunk in 0..chunks.count {
            let phase = first.wrapping_add(chunk as u32);
            self.wait_all(turn, phase)?;
            self.reduce_share(phase, &chunks, chunk, data, op);
            if chunk > 0 && wants {
                self.take_results(phase, &chunks, chunk - 1, data);
            }
            if chunk + 1 < chunks.count {
                self.give_chunk(phase.wrapping_add(1), &chunks, chunk + 1, data);
            }
            self.post(turn);
        }
        let last = first.wrapping_add(chunks.count as u32);
        self.wait_all(turn, last)?;
        if wants {
            self.take_results(last, &chunks, chunks.count - 1, data);
        }
        Ok(())
    }

    /// Gives the others their shares of a chunk.
    fn give_chunk<T: Element>(&self, phase: u32, chunks: &Chunks, chunk: usize, data: &[T]) {
        let own = chunks.share(chunk, self.rank);
        let all = chunks.share(chunk, 0).start..chunks.share(chunk, self.size - 1).end;
        self.writer.write((all.len() - own.len()) * size_of::<T>(), |copy| {
            for share in [all.start..own.start, own.end..all.end] {
                let offset = (share.start - all.start) * size_of::<T>();
                self.give_by(copy, phase, offset, &data[share]);
            }
        });
    }

    /// Reduces this rank's share of a chunk, for the next phase.
    fn reduce_share<T: Element>(
        &self,
        phase: u32,
        chunks: &Chunks,
        chunk: usize,
        data: &mut [T],
        op: Reduce,
    ) {
        let share = chunks.share(chunk, self.rank);
        let offset = (share.start - chunks.start(chunk)) * size_of::<T>();
        let (step, copy) = (BLOCK / size_of::<T>(), self.writer.copy());
        for (at, block) in data[share].chunks_mut(step).enumerate() {
            for other in 1..self.size {
                let other = (self.rank + other) % self.size;
                fold(op, block, self.given(other, phase, offset + at * BLOCK, block.len()));
            }
            assert!((at * step + block.len()) * size_of::<T>() <= OUTPUT, "a share fits");
            let to = self.output(self.rank, phase.wrapping_add(1));
            // SAFETY: inside of this rank's own slot for the next phase, which nobody reads now.
            unsafe { copy(block.as_ptr().cast(), to.add(at * BLOCK), size_of_val(block)) };
        }
    }

    /// Takes the shares that the others have reduced.
    fn take_results<T: Element>(&self, phase: u32, chunks: &Chunks, chunk: usize, data: &mut [T]) {
        for step in 1..self.size {
            let rank = (self.rank + step) % self.size;
            let into = &mut data[chunks.share(chunk, rank)];
            assert!(size_of_val(into) <= OUTPUT, "a share fits");
            let from = self.output(rank, phase).cast::<T>();
            // SAFETY: the rank has posted the phase, so it has written this and will not write it
            // again before we have posted the next one.
            unsafe {
                into.as_mut_ptr().copy_from_nonoverlapping(from, into.len());
            }
        }
    }

    /// Writes data for the others, `offset` bytes from the start of this rank's slot.
    pub(super) fn give<T: bytemuck::Pod>(&self, phase: u32, offset: usize, data: &[T]) {
        if size_of_val(data) < SMALL {
            return self.give_by(copy::through_caches, phase, offset, data);
        }
        let bytes = size_of_val(data);
        self.writer.write(bytes, |copy| self.give_by(copy, phase, offset, data));
    }

    fn give_by<T: bytemuck::Pod>(&self, copy: Copy, phase: u32, offset: usize, data: &[T]) {
        let bytes = size_of_val(data);
        assert!(offset + bytes <= INPUT, "data fits");
        // SAFETY: inside of this rank's own slot for a phase that is not posted yet.
        unsafe { copy(data.as_ptr().cast(), self.input(self.rank, phase).add(offset), bytes) }
    }

    /// What a rank has given in a phase that it has posted and we have not left.
    pub(super) fn given<T: bytemuck::Pod>(
        &self,
        rank: usize,
        phase: u32,
        offset: usize,
        length: usize,
    ) -> &[T] {
        assert!(
            offset + length * size_of::<T>() <= INPUT && offset.is_multiple_of(align_of::<T>()),
            "data fits"
        );
        // SAFETY: inside of the rank's slot, which it will not write again before we have posted
        // the next phase; any bytes are a value of this type.
        unsafe {
            let from = self.input(rank, phase).add(offset).cast::<T>();
            std::slice::from_raw_parts(from, length)
        }
    }
}

/// How data is cut into chunks, and a chunk into one share per rank. All shares of all chunks but
/// the last have one size, a multiple of a cache line.
struct Chunks {
    length: usize,
    count: usize,
    ranks: usize,
    /// Elements of a share.
    share: usize,
    /// Elements of a share of the last chunk.
    last: usize,
}

impl Chunks {
    fn of<T>(length: usize, ranks: usize) -> Chunks {
        let line = LINE / size_of::<T>();
        let fit = |bytes: usize| (bytes / LINE * line).max(line);
        let largest = fit((CHUNK / ranks).min(OUTPUT).min(INPUT / ranks));
        let count = length.div_ceil(largest * ranks).max(1);
        let rest = length - (count - 1) * largest * ranks;
        let last = rest.div_ceil(ranks).next_multiple_of(line);
        Chunks { length, count, ranks, share: largest, last }
    }

    fn start(&self, chunk: usize) -> usize {
        chunk * self.share * self.ranks
    }

    fn share(&self, chunk: usize, rank: usize) -> Range<usize> {
        let size = if chunk + 1 == self.count { self.last } else { self.share };
        let start = (self.start(chunk) + rank * size).min(self.length);
        start..(start + size).min(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_all_once() {
        for length in [0, 1, 15, 16, 17, 5000, 131_072, 131_073, 1_000_003] {
            for ranks in 2..9 {
                let chunks = Chunks::of::<f32>(length, ranks);
                let mut next = 0;
                for chunk in 0..chunks.count {
                    for rank in 0..ranks {
                        let share = chunks.share(chunk, rank);
                        assert_eq!(share.start, next, "{length} by {ranks}");
                        next = share.end;
                    }
                }
                assert_eq!(next, length);
            }
        }
    }
}
