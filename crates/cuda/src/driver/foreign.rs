//! Streams of other libraries in this process: who shares memory with them waits for their work, or they for ours.
#![expect(unsafe_code, reason = "the driver is called")]

use cudarc::driver::sys::{self, CUstream};

use super::error::Result;
use super::event::Event;
use super::memory::Span;
use super::stream::Stream;

impl Stream {
    /// What other libraries call this stream.
    pub fn raw(&self) -> u64 {
        self.handle() as u64
    }

    /// Lets the work that another library gives to its stream from now on wait for an event of this one.
    ///
    /// # Safety
    /// `other` must be a stream that lives, or one of the driver's own (1 and 2).
    pub unsafe fn is_awaited_by(&self, other: u64, event: &Event) -> Result<()> {
        self.record(event)?;
        // SAFETY: the caller's promise; the event lives.
        let code = unsafe { sys::cuStreamWaitEvent(other as CUstream, event.handle(), 0) };
        self.card().check("cuStreamWaitEvent", code)
    }

    /// Lets the work that this stream is given from now on wait for what another library gave to its stream.
    ///
    /// # Safety
    /// As [`Stream::is_awaited_by`].
    pub unsafe fn awaits(&self, other: u64, event: &Event) -> Result<()> {
        self.card().enter()?;
        // SAFETY: the caller's promise; the event lives.
        let code = unsafe { sys::cuEventRecord(event.handle(), other as CUstream) };
        self.card().check("cuEventRecord", code)?;
        self.wait(event)
    }

    /// Copies page-locked bytes to the card some time later.
    ///
    /// # Safety
    /// There must be as many page-locked bytes at `from` as the span has, which live and are not written until the work
    /// has been waited for.
    pub unsafe fn upload_from(&self, to: Span<'_>, from: *const u8) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        self.card().enter()?;
        // SAFETY: the caller's promise.
        let code = unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.address(), from.cast(), to.len(), self.handle())
        };
        self.card().check("cuMemcpyHtoDAsync", code)
    }
}
