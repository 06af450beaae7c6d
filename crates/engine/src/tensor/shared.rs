//! Elements that several threads read and write at one time: parameters of training threads.
//!
//! Every access is a relaxed atomic one of an element's own size, so a reader sees each element as
//! some thread wrote it, and never half of one; what two threads add to one element at a time may
//! be lost, which Hogwild allows. Such memory is never seen as a slice: work is done on copies of
//! a row or a block, which the compiler can vectorise as it cannot atomics.

#![expect(unsafe_code, reason = "memory without an owner, reached by address")]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::Element;
use crate::prefetch::{prefetch, prefetch_at};

/// Elements that a kernel copies out row by row: a slice, or memory that others may write.
pub trait Elements<T: Element>: Copy {
    /// The number of elements.
    fn count(self) -> usize;
    /// Copies the elements from `at` on.
    ///
    /// # Panics
    /// When there are fewer.
    fn load(self, at: usize, to: &mut [T]);
    /// Asks for the elements from `at` on, if there are so many; see [`crate::prefetch`].
    fn prefetch(self, at: usize, len: usize);
}

impl<T: Element> Elements<T> for &[T] {
    #[inline(always)]
    fn count(self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn load(self, at: usize, to: &mut [T]) {
        to.copy_from_slice(&self[at..][..to.len()]);
    }
    #[inline(always)]
    fn prefetch(self, at: usize, len: usize) {
        prefetch(self, at, len);
    }
}

impl<T: Element> Elements<T> for Shared<'_, T> {
    #[inline(always)]
    fn count(self) -> usize {
        self.len
    }
    #[inline(always)]
    fn load(self, at: usize, to: &mut [T]) {
        let from = self.at(at, to.len());
        // SAFETY: the elements lie inside, and are touched by relaxed accesses only; `to` is ours.
        unsafe { load(from.cast(), to.as_mut_ptr().cast(), to.len(), size_of::<T>()) }
    }
    #[inline(always)]
    fn prefetch(self, at: usize, len: usize) {
        if len > 0 && at.checked_add(len).is_some_and(|end| end <= self.len) {
            // SAFETY: both addresses lie inside.
            let (first, last) = unsafe { (self.start.add(at), self.start.add(at + len - 1)) };
            prefetch_at(first.as_ptr());
            prefetch_at(last.as_ptr());
        }
    }
}

/// Elements that others may write.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a, T> {
    start: NonNull<T>,
    len: usize,
    memory: PhantomData<&'a T>,
}

impl<T: Element> Shared<'_, T> {
    /// The `len` elements at `start`.
    ///
    /// # Safety
    /// They are valid and aligned for the lifetime, and touched by relaxed atomic accesses of
    /// their size only.
    pub(super) unsafe fn new(start: NonNull<T>, len: usize) -> Self {
        Shared { start, len, memory: PhantomData }
    }

    /// Overwrites the elements from `at` on.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn store(&self, at: usize, from: &[T]) {
        let to = self.at(at, from.len());
        // SAFETY: the elements lie inside, and are touched by relaxed accesses only; `from` is
        // borrowed.
        unsafe { store(from.as_ptr().cast(), to.cast(), from.len(), size_of::<T>()) }
    }

    #[inline(always)]
    fn at(&self, at: usize, len: usize) -> NonNull<T> {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "elements lie inside");
        // SAFETY: checked above.
        unsafe { self.start.add(at) }
    }
}

macro_rules! by_size {
    ($size:expr, $Atomic:ident, $Word:ident => $body:expr) => {
        match $size {
            1 => {
                type $Atomic = AtomicU8;
                type $Word = u8;
                $body
            }
            2 => {
                type $Atomic = AtomicU16;
                type $Word = u16;
                $body
            }
            4 => {
                type $Atomic = AtomicU32;
                type $Word = u32;
                $body
            }
            _ => {
                type $Atomic = AtomicU64;
                type $Word = u64;
                $body
            }
        }
    };
}

/// Copies `count` elements of `size` bytes out of shared memory.
///
/// # Safety
/// Both ranges are valid, `from` is aligned and touched by relaxed accesses only, `to` by nobody.
#[inline(always)]
pub(super) unsafe fn load(from: NonNull<u8>, to: *mut u8, count: usize, size: usize) {
    by_size!(size, Atomic, Word => {
        let (from, to) = (from.cast::<Word>().as_ptr(), to.cast::<Word>());
        for i in 0..count {
            // SAFETY: the caller's promise.
            unsafe { to.add(i).write_unaligned(Atomic::from_ptr(from.add(i)).load(Ordering::Relaxed)) }
        }
    });
}

/// Copies `count` elements of `size` bytes into shared memory.
///
/// # Safety
/// As [`load`], the other way round.
#[inline(always)]
pub(super) unsafe fn store(from: *const u8, to: NonNull<u8>, count: usize, size: usize) {
    by_size!(size, Atomic, Word => {
        let (from, to) = (from.cast::<Word>(), to.cast::<Word>().as_ptr());
        for i in 0..count {
            // SAFETY: the caller's promise.
            unsafe { Atomic::from_ptr(to.add(i)).store(from.add(i).read_unaligned(), Ordering::Relaxed) }
        }
    });
}
