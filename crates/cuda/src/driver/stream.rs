//! A stream: work that a card does in order.
#![expect(unsafe_code, reason = "the driver is called")]

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUDA_MEMCPY2D, CUmemorytype, CUpointer_attribute, CUresult, CUstream,
    CUstreamCaptureStatus,
};

use super::card::Card;
use super::error::{Error, Result};
use super::event::Event;
use super::memory::{Memory, Pinned, Span};

/// Work of a card, done in the order in which it is given and beside that of other streams.
pub struct Stream {
    card: Arc<Card>,
    handle: CUstream,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Makes a stream that waits for no other unless it is told to.
    pub fn new(card: &Arc<Card>) -> Result<Arc<Stream>> {
        Stream::with_priority(card, 0)
    }

    /// Makes a stream with a priority: the lower the number, the sooner its work runs.
    pub fn with_priority(card: &Arc<Card>, priority: i32) -> Result<Arc<Stream>> {
        card.enter()?;
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut handle: CUstream = ptr::null_mut();
        // SAFETY: the driver writes one handle.
        let code = unsafe { sys::cuStreamCreateWithPriority(&raw mut handle, flags, priority) };
        card.check("cuStreamCreate", code)?;
        Ok(Arc::new(Stream { card: card.clone(), handle }))
    }

    /// The card that does the work.
    pub fn card(&self) -> &Arc<Card> {
        &self.card
    }

    /// Allocates memory in the order of this stream.
    pub fn allocate(self: &Arc<Self>, bytes: usize) -> Result<Memory> {
        Memory::new(self, bytes)
    }

    /// Copies bytes of the host to the card. They may be changed as soon as this returns.
    pub fn upload(&self, to: Span<'_>, from: &[u8]) -> Result<()> {
        same_size("cuMemcpyHtoDAsync", to.len(), from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        self.forbid_recording("cuMemcpyHtoDAsync")?;
        // SAFETY: pageable bytes are taken before the call returns, page-locked ones are waited for.
        let code = unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.address(), from.as_ptr().cast(), from.len(), self.handle)
        };
        self.card.check("cuMemcpyHtoDAsync", code)?;
        if is_page_locked(from) { self.synchronize() } else { Ok(()) }
    }

    /// Copies bytes of the card to the host, and waits for them.
    pub fn download(&self, to: &mut [u8], from: Span<'_>) -> Result<()> {
        same_size("cuMemcpyDtoHAsync", to.len(), from.len())?;
        if to.is_empty() {
            return Ok(());
        }
        self.forbid_recording("cuMemcpyDtoHAsync")?;
        // SAFETY: the copy is done when this returns.
        let code = unsafe {
            sys::cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from.address(), to.len(), self.handle)
        };
        let queued = self.card.check("cuMemcpyDtoHAsync", code);
        let done = self.synchronize();
        queued.and(done)
    }

    /// Copies page-locked bytes to the card some time later.
    ///
    /// # Safety
    /// Until the work has been waited for, or as long as a graph that records it is replayed, `from`
    /// must live, and its bytes must not be written to while the copy runs.
    pub unsafe fn upload_later(
        &self,
        to: Span<'_>,
        from: &Pinned,
        range: Range<usize>,
    ) -> Result<()> {
        let at = pinned_part("cuMemcpyHtoDAsync", from, &range, to.len())?;
        self.card.enter()?;
        // SAFETY: the caller cares for `from`.
        let code = unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.address(), at.cast_const().cast(), to.len(), self.handle)
        };
        self.card.check("cuMemcpyHtoDAsync", code)
    }

    /// As [`Stream::upload_later`], of page-locked memory of somebody else.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn upload_locked(&self, to: Span<'_>, from: &[u8]) -> Result<()> {
        same_size("cuMemcpyHtoDAsync", to.len(), from.len())?;
        self.card.enter()?;
        // SAFETY: the caller cares for `from`.
        let code = unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.address(), from.as_ptr().cast(), to.len(), self.handle)
        };
        self.card.check("cuMemcpyHtoDAsync", code)
    }

    /// Copies bytes of the card to page-locked memory some time later.
    ///
    /// # Safety
    /// Until the work has been waited for, or as long as a graph that records it is replayed, `to` must
    /// live, and its bytes must not be looked at while the copy runs.
    pub unsafe fn download_later(
        &self,
        to: &Pinned,
        range: Range<usize>,
        from: Span<'_>,
    ) -> Result<()> {
        let at = pinned_part("cuMemcpyDtoHAsync", to, &range, from.len())?;
        self.card.enter()?;
        // SAFETY: the caller cares for `to`.
        let code = unsafe {
            sys::cuMemcpyDtoHAsync_v2(at.cast(), from.address(), from.len(), self.handle)
        };
        self.card.check("cuMemcpyDtoHAsync", code)
    }

    /// As [`Stream::download_later`], to page-locked memory of somebody else.
    ///
    /// # Safety
    /// As there; `to` has as many bytes as `from`.
    pub(crate) unsafe fn download_to(&self, to: *mut u8, from: Span<'_>) -> Result<()> {
        self.card.enter()?;
        // SAFETY: the caller cares for `to`.
        let code = unsafe {
            sys::cuMemcpyDtoHAsync_v2(to.cast(), from.address(), from.len(), self.handle)
        };
        self.card.check("cuMemcpyDtoHAsync", code)
    }

    /// Copies bytes on the card, or from one card to another.
    pub fn copy(&self, to: Span<'_>, from: Span<'_>) -> Result<()> {
        same_size("cuMemcpyDtoDAsync", to.len(), from.len())?;
        if to.is_empty() {
            return Ok(());
        }
        self.card.enter()?;
        // SAFETY: both spans are memory of cards, of this size.
        let code = unsafe {
            sys::cuMemcpyDtoDAsync_v2(to.address(), from.address(), to.len(), self.handle)
        };
        self.card.check("cuMemcpyDtoDAsync", code)
    }

    /// Copies `rows` rows of `row_bytes` bytes; `to_pitch` and `from_pitch` are the bytes from the start
    /// of a row to that of the next.
    pub fn copy_rows(
        &self,
        (to, to_pitch): (Span<'_>, usize),
        (from, from_pitch): (Span<'_>, usize),
        rows: usize,
        row_bytes: usize,
    ) -> Result<()> {
        if rows == 0 || row_bytes == 0 {
            return Ok(());
        }
        for (span, pitch) in [(to, to_pitch), (from, from_pitch)] {
            let extent =
                (rows - 1).checked_mul(pitch).and_then(|bytes| bytes.checked_add(row_bytes));
            if pitch < row_bytes || extent.is_none_or(|extent| extent > span.len()) {
                let text = format!(
                    "{rows} rows of {row_bytes} bytes, {pitch} apart, in {} bytes",
                    span.len()
                );
                return Err(wrong("cuMemcpy2DAsync", text));
            }
        }
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcHost: ptr::null(),
            srcDevice: from.address(),
            srcArray: ptr::null_mut(),
            srcPitch: from_pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: ptr::null_mut(),
            dstDevice: to.address(),
            dstArray: ptr::null_mut(),
            dstPitch: to_pitch,
            WidthInBytes: row_bytes,
            Height: rows,
        };
        self.card.enter()?;
        // SAFETY: the rows were found to lie in the spans.
        let code = unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, self.handle) };
        self.card.check("cuMemcpy2DAsync", code)
    }

    /// Sets every byte.
    pub fn fill(&self, to: Span<'_>, byte: u8) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        self.card.enter()?;
        // SAFETY: the span is memory of a card.
        let code = unsafe { sys::cuMemsetD8Async(to.address(), byte, to.len(), self.handle) };
        self.card.check("cuMemsetD8Async", code)
    }

    /// Sets every four bytes to those of a word.
    pub fn fill_words(&self, to: Span<'_>, word: u32) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        if !to.len().is_multiple_of(4) || !to.address().is_multiple_of(4) {
            return Err(wrong(
                "cuMemsetD32Async",
                format!("{} bytes are not whole words", to.len()),
            ));
        }
        self.card.enter()?;
        // SAFETY: the span is memory of a card, in whole words.
        let code = unsafe { sys::cuMemsetD32Async(to.address(), word, to.len() / 4, self.handle) };
        self.card.check("cuMemsetD32Async", code)
    }

    /// Marks the end of the work that was given so far.
    pub fn record(&self, event: &Event) -> Result<()> {
        self.card.enter()?;
        // SAFETY: both handles live.
        self.card.check("cuEventRecord", unsafe { sys::cuEventRecord(event.handle(), self.handle) })
    }

    /// Lets the work that is given from now on wait for an event.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.card.enter()?;
        // SAFETY: both handles live.
        self.card.check("cuStreamWaitEvent", unsafe {
            sys::cuStreamWaitEvent(self.handle, event.handle(), 0)
        })
    }

    /// Waits until all work of this stream is done.
    pub fn synchronize(&self) -> Result<()> {
        self.card.enter()?;
        // SAFETY: the handle lives.
        self.card.check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.handle) })
    }

    /// Whether all work of this stream is done.
    pub fn is_idle(&self) -> Result<bool> {
        self.card.enter()?;
        // SAFETY: the handle lives.
        let code = unsafe { sys::cuStreamQuery(self.handle) };
        if code == CUresult::CUDA_ERROR_NOT_READY {
            return Ok(false);
        }
        self.card.check("cuStreamQuery", code)?;
        Ok(true)
    }

    /// Whether work is recorded rather than done.
    pub fn is_recording(&self) -> Result<bool> {
        self.card.enter()?;
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the handle lives, and the driver writes one of its three states.
        let code = unsafe { sys::cuStreamIsCapturing(self.handle, &raw mut status) };
        self.card.check("cuStreamIsCapturing", code)?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    pub(super) fn handle(&self) -> CUstream {
        self.handle
    }

    /// A graph must not hold addresses of memory that the host may free.
    fn forbid_recording(&self, function: &'static str) -> Result<()> {
        if self.is_recording()? {
            let text = "only page-locked memory can be copied while work is recorded".to_owned();
            return Err(wrong(function, text));
        }
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: the handle is ours; work that was given is still done.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.handle) };
        }
    }
}

/// An argument that is refused before the driver sees it, with the driver's own code.
pub(super) fn wrong(function: &'static str, text: String) -> Error {
    Error::Call { function, code: CUresult::CUDA_ERROR_INVALID_VALUE as i32, text }
}

fn same_size(function: &'static str, to: usize, from: usize) -> Result<()> {
    if to == from { Ok(()) } else { Err(wrong(function, format!("{from} bytes do not fill {to}"))) }
}

fn pinned_part(
    function: &'static str,
    pinned: &Pinned,
    range: &Range<usize>,
    bytes: usize,
) -> Result<*mut u8> {
    if range.start > range.end || range.end > pinned.len() {
        return Err(wrong(function, format!("bytes {range:?} of {}", pinned.len())));
    }
    same_size(function, bytes, range.end - range.start)?;
    // SAFETY: the range was found to lie in the memory.
    Ok(unsafe { pinned.as_ptr().add(range.start) })
}

/// Whether the driver knows these bytes, so that it copies them later and not at the call.
pub(crate) fn is_page_locked(bytes: &[u8]) -> bool {
    let mut kind = 0u32;
    let attribute = CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    // SAFETY: this attribute is a 32-bit number, and any address may be asked about.
    let code = unsafe {
        sys::cuPointerGetAttribute(
            (&raw mut kind).cast::<c_void>(),
            attribute,
            bytes.as_ptr() as u64,
        )
    };
    code == CUresult::CUDA_SUCCESS
}
