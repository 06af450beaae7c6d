//! What `device.cuda` says of a card: its properties, its memory, points in its work.

use std::sync::Mutex;
use std::sync::PoisonError;

use bireme_cuda::figures::{self, Moment};
use bireme_engine::Error;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::card;
use crate::error::enter;

/// Name, compute capability, memory in bytes and multiprocessors of a card.
#[pyfunction]
pub(crate) fn card_properties(
    py: Python<'_>,
    number: u32,
) -> PyResult<(String, u32, u32, usize, u32)> {
    card::open(number)?;
    let found = enter(py, || figures::properties(number))?;
    let (major, minor) = found.capability;
    Ok((found.name, major, minor, found.total_memory, found.multiprocessors))
}

/// How the memory of a card is used, in bytes.
#[pyfunction]
pub(crate) fn card_memory(py: Python<'_>, number: u32) -> PyResult<Bound<'_, PyDict>> {
    card::open(number)?;
    let found = enter(py, || figures::memory(number))?;
    let figures = PyDict::new(py);
    for (name, value) in [
        ("free", found.free),
        ("total", found.total),
        ("allocated", found.used),
        ("reserved", found.reserved),
        ("max_allocated", found.used_peak),
        ("max_reserved", found.reserved_peak),
    ] {
        figures.set_item(name, value)?;
    }
    Ok(figures)
}

/// Lets the peak of `card_memory` begin anew: that of `reserved`, or that of `allocated`.
#[pyfunction]
pub(crate) fn reset_card_peak(py: Python<'_>, number: u32, reserved: bool) -> PyResult<()> {
    card::open(number)?;
    enter(py, || figures::reset_peak(number, reserved))
}

/// Waits until a card has done all that it was given.
#[pyfunction]
pub(crate) fn synchronize_card(py: Python<'_>, number: u32) -> PyResult<()> {
    let device = card::open(number)?;
    enter(py, || device.synchronize())
}

/// Whether a card has done all that it was given.
#[pyfunction]
pub(crate) fn is_card_idle(py: Python<'_>, number: u32) -> PyResult<bool> {
    card::open(number)?;
    enter(py, || figures::is_idle(number))
}

/// Gives memory back that this process keeps of its cards without using it.
#[pyfunction]
pub(crate) fn empty_card_caches(py: Python<'_>) -> PyResult<()> {
    enter(py, || card::opened().into_iter().try_for_each(figures::give_back_kept))
}

/// Lets products of 32-bit floats round their factors, in programs that are compiled from now on.
#[pyfunction]
pub(crate) fn allow_tf32(allow: bool) {
    bireme_cuda::allow_tf32(allow);
}

/// A point in the work of a card.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct CardEvent {
    at: Mutex<Option<Moment>>,
}

impl CardEvent {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        never: T,
        ask: impl FnOnce(&Moment) -> bireme_engine::Result<T> + Send,
    ) -> PyResult<T> {
        enter(py, || match &*self.at.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(moment) => ask(moment),
            None => Ok(never),
        })
    }
}

#[pymethods]
impl CardEvent {
    #[new]
    fn new() -> CardEvent {
        CardEvent { at: Mutex::new(None) }
    }

    /// Moves it behind all that card `number` was given until now.
    fn record(&self, py: Python<'_>, number: u32) -> PyResult<()> {
        card::open(number)?;
        enter(py, || {
            let moment = Moment::now(number)?;
            *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
            Ok(())
        })
    }

    /// Whether it is reached; one that was never recorded is.
    fn query(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, true, Moment::is_past)
    }

    /// Waits until it is reached.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, (), Moment::wait)
    }

    /// Milliseconds from this event to `end`.
    fn elapsed_time(&self, py: Python<'_>, end: &Bound<'_, CardEvent>) -> PyResult<f32> {
        let end = end.get();
        if std::ptr::eq(self, end) {
            return Ok(0.0);
        }
        enter(py, || {
            let start = self.at.lock().unwrap_or_else(PoisonError::into_inner).take();
            let end = end.at.lock().unwrap_or_else(PoisonError::into_inner);
            let elapsed = match (&start, &*end) {
                (Some(start), Some(end)) => end.milliseconds_since(start),
                _ => Err(Error::kernel(
                    "both events must be recorded before the time between them is asked",
                )),
            };
            drop(end);
            // Put back rather than held, so that two threads cannot wait for each other's locks.
            let mut own = self.at.lock().unwrap_or_else(PoisonError::into_inner);
            if own.is_none() {
                *own = start;
            }
            elapsed
        })
    }
}
