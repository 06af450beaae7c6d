//! A point in a stream's work that others wait for.
#![expect(unsafe_code, reason = "the driver is called")]

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUresult};

use super::card::Card;
use super::error::Result;

/// Whether an event also takes the time, which costs a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// It only orders work.
    Off,
    /// [`Event::milliseconds_since`] can be asked.
    On,
}

/// An event of a card. It has come while it was never recorded.
pub struct Event {
    card: Arc<Card>,
    handle: CUevent,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Makes an event.
    pub fn new(card: &Arc<Card>, timing: Timing) -> Result<Event> {
        card.enter()?;
        let flags = match timing {
            Timing::Off => CUevent_flags::CU_EVENT_DISABLE_TIMING,
            Timing::On => CUevent_flags::CU_EVENT_DEFAULT,
        };
        let mut handle: CUevent = ptr::null_mut();
        // SAFETY: the driver writes one handle.
        card.check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut handle, flags as u32) })?;
        Ok(Event { card: card.clone(), handle })
    }

    /// Whether the work before it is done.
    pub fn is_done(&self) -> Result<bool> {
        self.card.enter()?;
        // SAFETY: the handle is ours.
        let code = unsafe { sys::cuEventQuery(self.handle) };
        if code == CUresult::CUDA_ERROR_NOT_READY {
            return Ok(false);
        }
        self.card.check("cuEventQuery", code)?;
        Ok(true)
    }

    /// Waits until the work before it is done.
    pub fn synchronize(&self) -> Result<()> {
        self.card.enter()?;
        // SAFETY: the handle is ours.
        self.card.check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.handle) })
    }

    /// The time from another event to this one; both have come, and take the time.
    pub fn milliseconds_since(&self, start: &Event) -> Result<f32> {
        self.card.enter()?;
        let mut milliseconds = 0.0;
        // SAFETY: the handles are ours, and the driver writes one number.
        let code =
            unsafe { sys::cuEventElapsedTime_v2(&raw mut milliseconds, start.handle, self.handle) };
        self.card.check("cuEventElapsedTime", code)?;
        Ok(milliseconds)
    }

    pub(super) fn handle(&self) -> CUevent {
        self.handle
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.card.enter().is_ok() {
            // SAFETY: the handle is ours; work that waits for it is not disturbed.
            let _ = unsafe { sys::cuEventDestroy_v2(self.handle) };
        }
    }
}
