//! Memory of a card, and page-locked memory of the host.
#![expect(unsafe_code, reason = "the driver is called")]

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::slice;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdeviceptr, CUresult};

use super::card::Card;
use super::error::{Error, Result};
use super::stream::Stream;

/// Memory of a card, from the driver's pool. It is allocated and freed in the order of its stream:
/// other streams must wait for that stream before they use it, and be waited for before it is dropped.
pub struct Memory {
    stream: Arc<Stream>,
    address: CUdeviceptr,
    bytes: usize,
    /// Bytes that count as used.
    counted: usize,
}

impl Memory {
    /// Allocates memory in the order of a stream. Its contents are not defined.
    pub fn new(stream: &Arc<Stream>, bytes: usize) -> Result<Memory> {
        let mut memory = Memory::uncounted(stream, bytes)?;
        memory.counted = bytes;
        stream.card().counters.add(bytes);
        Ok(memory)
    }

    /// As [`Memory::new`], for somebody who hands it out in parts and counts these.
    pub(crate) fn uncounted(stream: &Arc<Stream>, bytes: usize) -> Result<Memory> {
        let card = stream.card();
        card.enter()?;
        let mut address: CUdeviceptr = 0;
        // SAFETY: the driver writes one address. It does not give pieces of no bytes.
        let code = unsafe { sys::cuMemAllocAsync(&raw mut address, bytes.max(1), stream.handle()) };
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let figures = card.memory()?;
            return Err(Error::OutOfMemory { bytes, free: figures.free, total: figures.total });
        }
        card.check("cuMemAllocAsync", code)?;
        Ok(Memory { stream: stream.clone(), address, bytes, counted: 0 })
    }

    /// Its address on the card.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The stream that it was allocated on.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// All of it.
    pub fn whole(&self) -> Span<'_> {
        Span { address: self.address, bytes: self.bytes, memory: PhantomData }
    }

    /// Some of its bytes; none when they are not all in it.
    pub fn span(&self, range: Range<usize>) -> Option<Span<'_>> {
        if range.start > range.end || range.end > self.bytes {
            return None;
        }
        let address = self.address + u64::try_from(range.start).ok()?;
        Some(Span { address, bytes: range.end - range.start, memory: PhantomData })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.stream.card().counters.subtract(self.counted);
        if self.stream.card().enter().is_ok() {
            // SAFETY: nobody has the address any more but work that was given before. A failure is one
            // of the whole context, which takes its memory with it.
            let _ = unsafe { sys::cuMemFreeAsync(self.address, self.stream.handle()) };
        }
    }
}

/// Bytes in the memory of a card.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    address: CUdeviceptr,
    bytes: usize,
    memory: PhantomData<&'a Memory>,
}

impl Span<'_> {
    /// Bytes of a card that somebody else has allocated.
    ///
    /// # Safety
    /// They must stay allocated as long as work that uses the span may run.
    pub unsafe fn from_raw<'a>(address: u64, bytes: usize) -> Span<'a> {
        Span { address, bytes, memory: PhantomData }
    }

    /// Where it starts on the card.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// Page-locked memory of the host, which cards copy from and to by themselves.
pub struct Pinned {
    card: Arc<Card>,
    at: *mut u8,
    bytes: usize,
}

// SAFETY: it is plain memory, reached through `&self` and `&mut self` only.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Allocates page-locked memory, filled with zeros.
    pub fn new(card: &Arc<Card>, bytes: usize) -> Result<Pinned> {
        card.enter()?;
        let mut at: *mut c_void = ptr::null_mut();
        // Every card may use it, not only this one.
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: the driver writes one address. It does not give pieces of no bytes.
        let code = unsafe { sys::cuMemHostAlloc(&raw mut at, bytes.max(1), flags) };
        if code == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let text = format!("the host has no {bytes} bytes that can be page-locked");
            return Err(Error::Call { function: "cuMemHostAlloc", code: code as i32, text });
        }
        card.check("cuMemHostAlloc", code)?;
        // SAFETY: the driver gave this many bytes.
        unsafe { ptr::write_bytes(at.cast::<u8>(), 0, bytes) };
        Ok(Pinned { card: card.clone(), at: at.cast(), bytes })
    }

    /// Its bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the memory is initialised, lives as long as `self`, and nobody else writes to it but
        // copies whose callers promise to be waited for.
        unsafe { slice::from_raw_parts(self.at, self.bytes) }
    }

    /// Its bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.at, self.bytes) }
    }

    /// Where it starts, for copies that are waited for later.
    pub fn as_ptr(&self) -> *mut u8 {
        self.at
    }

    /// Its size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: it was allocated by the driver, and copies have been waited for.
            let _ = unsafe { sys::cuMemFreeHost(self.at.cast()) };
        }
    }
}
