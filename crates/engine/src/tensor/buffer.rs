//! Memory of a tensor: a block of its own, or a window into one that is owned elsewhere.
//!
//! Every block starts on a cache line, so kernels may assume aligned vectors. All raw memory of the
//! engine is handled in this file.

#![expect(unsafe_code, reason = "tensor memory is typed at run time")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::panic::{RefUnwindSafe, UnwindSafe, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::Error;
use crate::device::PageLocked;

/// Alignment of every block, in bytes: one cache line.
pub const ALIGN: usize = 64;

/// Bytes on a cache-line boundary.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    /// This buffer frees the block.
    Own,
    /// The block belongs to an arena that lives at least as long as this window.
    Arena(#[expect(dead_code, reason = "held to keep the memory alive")] Arc<Buffer>),
    /// The block lies in page-locked memory, together with others.
    LockedWindow(
        #[expect(dead_code, reason = "held to keep the memory alive")] Arc<dyn PageLocked>,
    ),
    /// The block belongs to somebody who promised to outlive this window.
    Foreign,
    /// As `Foreign`, and other threads read and write it: by relaxed atomic accesses only.
    Shared,
    /// All of some page-locked memory, which cards copy from and to by themselves.
    Locked(Arc<dyn PageLocked>),
}

// SAFETY: a buffer is plain bytes. Access from several threads is governed by the tensor around it
// (`&`/`&mut`) or, for windows, by the plan, which gives each worker its own part.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}
// Bytes have a value whatever panics, whoever owns them.
impl UnwindSafe for Buffer {}
impl RefUnwindSafe for Buffer {}

impl Buffer {
    /// A block of its own, zeroed.
    ///
    /// # Panics
    /// When there is no memory for it: unwinds with [`Error::OutOfMemory`], which those who catch
    /// panics hand on as the error it is. Aborting, as the standard library does, would take the
    /// user's process along with everything in it that is not saved.
    pub fn zeroed(bytes: usize) -> Buffer {
        if bytes == 0 {
            return Buffer {
                start: NonNull::<Line>::dangling().cast(),
                bytes,
                owner: Owner::Foreign,
            };
        }
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout(bytes)) };
        let Some(start) = NonNull::new(start) else {
            resume_unwind(Box::new(Error::OutOfMemory { bytes, place: String::new() }))
        };
        Buffer { start, bytes, owner: Owner::Own }
    }

    /// A window into `arena`. The caller keeps overlapping windows from being used at one time.
    ///
    /// # Panics
    /// When the window does not lie inside the arena.
    pub(crate) fn window(arena: &Arc<Buffer>, offset: usize, bytes: usize) -> Buffer {
        assert!(offset.is_multiple_of(ALIGN), "a window starts on a cache line");
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= arena.bytes), "window in arena");
        // SAFETY: the offset was checked to lie inside the block.
        let start = unsafe { arena.start.add(offset) };
        Buffer { start, bytes, owner: Owner::Arena(Arc::clone(arena)) }
    }

    /// A window into page-locked memory. The caller keeps overlapping windows from being used at one time.
    ///
    /// # Panics
    /// When the window does not lie inside the memory.
    pub(crate) fn locked_window(
        memory: &Arc<dyn PageLocked>,
        offset: usize,
        bytes: usize,
    ) -> Buffer {
        assert!(offset.is_multiple_of(ALIGN), "a window starts on a cache line");
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= memory.bytes()), "window in page-locked memory");
        // SAFETY: the offset was checked to lie inside the block.
        let start = unsafe { memory.start().add(offset) };
        Buffer { start, bytes, owner: Owner::LockedWindow(Arc::clone(memory)) }
    }

    /// A window into memory that somebody else keeps.
    ///
    /// # Safety
    /// The `bytes` bytes at `start` must stay valid, and must not be written by others in a way
    /// that conflicts with the use made of this window, for as long as it exists.
    pub unsafe fn foreign(start: NonNull<u8>, bytes: usize) -> Buffer {
        Buffer { start, bytes, owner: Owner::Foreign }
    }

    /// A window into memory that several threads read and write by relaxed atomic accesses.
    ///
    /// # Safety
    /// As [`Buffer::foreign`], and nobody touches the memory in another way.
    pub(super) unsafe fn shared(start: NonNull<u8>, bytes: usize) -> Buffer {
        Buffer { start, bytes, owner: Owner::Shared }
    }

    /// Page-locked memory.
    ///
    /// # Safety
    /// Nobody else writes it as long as this exists.
    pub(crate) unsafe fn locked(memory: Arc<dyn PageLocked>) -> Buffer {
        Buffer { start: memory.start(), bytes: memory.bytes(), owner: Owner::Locked(memory) }
    }

    /// The page-locked memory that it is all of, if it is such.
    pub(super) fn page_locked(&self) -> Option<&Arc<dyn PageLocked>> {
        match &self.owner {
            Owner::Locked(memory) => Some(memory),
            _ => None,
        }
    }

    /// Whether other threads may write it.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.owner, Owner::Shared)
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if matches!(self.owner, Owner::Own) {
            // SAFETY: `zeroed` allocated exactly this block with this layout.
            unsafe { dealloc(self.start.as_ptr(), layout(self.bytes)) }
        }
    }
}

#[repr(align(64))]
struct Line;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, ALIGN).expect("a tensor's size fits the address space")
}
