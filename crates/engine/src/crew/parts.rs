//! Slices of which every task has a part of its own.

use std::marker::PhantomData;
use std::ops::Range;

use super::{hands, share_out_near};

/// A slice of which tasks on several threads take parts that do not overlap.
pub(crate) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    of: PhantomData<&'a mut [T]>,
}

// SAFETY: a part is handed out as if the slice had been split and sent there.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    pub(crate) fn of(slice: &'a mut [T]) -> Parts<'a, T> {
        Parts { start: slice.as_mut_ptr(), len: slice.len(), of: PhantomData }
    }

    /// One part.
    ///
    /// # Safety
    /// No other part that overlaps it is alive.
    ///
    /// # Panics
    /// When it lies outside of the slice.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "parts do not overlap")]
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a part lies in its slice");
        // SAFETY: it lies inside, and the caller promises that nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

/// How many blocks `len` things are cut into where each must have `least` of them to be worth a thread: one where this
/// thread is alone, else some for each thread, so that none waits long for the last.
pub(crate) fn blocks(len: usize, least: usize) -> usize {
    /// Blocks for each thread.
    const EACH: usize = 2;
    match hands() {
        1 => 1,
        hands => (len / least.max(1)).clamp(1, hands * EACH),
    }
}

/// Calls `work` with the ranges of so many blocks of `len` things that differ by one in length at most.
pub(crate) fn each_block(len: usize, blocks: usize, work: impl Fn(Range<usize>) + Sync) {
    let start = |block: usize| len * block / blocks;
    match blocks {
        0 | 1 => work(0..len),
        _ => share_out_near(blocks, &|block| work(start(block)..start(block + 1)), &|| ()),
    }
}
