//! Errors of the engine as Python exceptions, and the one way into the engine.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bireme_engine::Error;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The exception for an engine error.
pub(crate) fn to_py(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::File { .. } => PyOSError::new_err(text),
        Error::NotInitialized { .. }
        | Error::NotFinite { .. }
        | Error::Device { .. }
        | Error::InUse { .. } => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Runs `work` with the interpreter free for other threads; errors and panics become exceptions,
/// and a Ctrl-C that came meanwhile is raised.
pub(crate) fn enter<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> bireme_engine::Result<T> + Send,
) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    py.check_signals()?;
    match outcome {
        Ok(result) => result.map_err(to_py),
        Err(_) => Err(PyRuntimeError::new_err("internal error of the engine: please report it")),
    }
}
