//! `Task`: a collective op that is under way, or over.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bireme_collective::{Group, Pending};
use bireme_engine::{Error, Result};
use bireme_fleet::eager::tensors::remote;
use pyo3::prelude::*;

use crate::error::enter;
use crate::executor::signalled;

/// How often a wait with a limit looks.
const LOOK: Duration = Duration::from_millis(1);

/// A collective op.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct Task {
    /// `None` once it is known how the op ended.
    pending: Mutex<Option<Pending<Result<()>>>>,
    is_sync: bool,
}

impl Task {
    /// Of an op that is over.
    pub(super) fn done() -> Task {
        Task { pending: Mutex::new(None), is_sync: true }
    }

    /// Starts `work` on the group's own thread.
    pub(super) fn start(
        group: &Group,
        work: impl FnOnce(&Group) -> Result<()> + Send + 'static,
    ) -> Task {
        let pending = group.start(move |group| Ok(work(group)));
        Task { pending: Mutex::new(Some(pending)), is_sync: false }
    }

    /// Waits until the op is over.
    pub(super) fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner).take();
        match pending {
            Some(pending) => enter(py, || pending.wait().map_err(remote)?),
            None => Ok(()),
        }
    }

    /// Waits until the op is over or the time is up; whether it is over.
    fn finish_within(&self, py: Python<'_>, limit: Duration) -> PyResult<bool> {
        enter(py, || {
            let end = Instant::now() + limit;
            let mut slot = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(mut pending) = slot.take() else { return Ok(true) };
            loop {
                pending = match pending.try_wait() {
                    Ok(outcome) => return outcome.map_err(remote)?.map(|()| true),
                    Err(pending) => pending,
                };
                let left = end.saturating_duration_since(Instant::now());
                let interrupted = signalled();
                if left.is_zero() || interrupted {
                    *slot = Some(pending);
                    return if interrupted { Err(Error::Interrupted) } else { Ok(false) };
                }
                thread::sleep(LOOK.min(left));
            }
        })
    }
}

#[pymethods]
impl Task {
    /// Waits until the op is over, at most `timeout` seconds; whether it is. Raises what went wrong.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        // More than a `Duration` holds is for ever.
        match timeout.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0))) {
            Some(Ok(limit)) => self.finish_within(py, limit),
            Some(Err(_)) | None => self.finish(py).map(|()| true),
        }
    }

    /// Whether the op is over; raises what went wrong.
    fn is_completed(&self, py: Python<'_>) -> PyResult<bool> {
        self.finish_within(py, Duration::ZERO)
    }

    /// As `wait`, without a limit.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        self.finish(py)
    }

    /// Whether the call that made it has waited.
    fn is_sync(&self) -> bool {
        self.is_sync
    }
}
