//! The one eager session of the process, and its switches.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI32, Ordering};

use bireme_engine::DType;
use bireme_engine::eager::Session;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::card::Current;
use crate::context;
use crate::convert::{dtype_object, dtype_of};
use crate::error::to_py;

static SESSION: LazyLock<Session> = LazyLock::new(Session::default);

/// The type of Python floats; Paddle's `get_default_dtype`.
static FLOAT: AtomicI32 = AtomicI32::new(DType::F32.code());

/// The session of every eager op.
pub(crate) fn session() -> &'static Session {
    &SESSION
}

/// Lets ops without inputs run on `device`, and parameters begin there.
pub(crate) fn set_current(device: &Current) -> PyResult<()> {
    let card = match device {
        Current::Host => None,
        Current::Card(device) => Some(session().card(device).map_err(to_py)?),
    };
    session().set_current(card);
    Ok(())
}

/// The type that Python floats become.
pub(crate) fn float_type() -> DType {
    DType::from_code(FLOAT.load(Ordering::Relaxed)).unwrap_or(DType::F32)
}

/// The type that Python floats become.
#[pyfunction]
pub(crate) fn get_default_dtype(py: Python<'_>) -> PyResult<Py<PyAny>> {
    dtype_object(py, float_type())
}

/// Makes Python floats `dtype`.
#[pyfunction]
pub(crate) fn set_default_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    let dtype = dtype_of(dtype)?;
    if !dtype.is_float() {
        return Err(PyTypeError::new_err(format!("the default type must be a float, not {dtype}")));
    }
    FLOAT.store(dtype.code(), Ordering::Relaxed);
    Ok(())
}

/// Random numbers start anew from `seed`: of eager mode, of the default programs, and of programs
/// that are made from now on. A program that was given a seed of its own keeps it.
#[pyfunction]
pub(crate) fn seed(py: Python<'_>, seed: u64) -> PyResult<()> {
    let before = session().seed();
    session().set_seed(seed);
    for program in [context::default_main_program(py)?, context::default_startup_program(py)?] {
        let handle = &program.get().handle;
        if handle.read(|program| program.random_seed) == before {
            handle.reseed(seed);
        }
    }
    Ok(())
}

/// Whether what produces NaN or infinity is an error: in eager mode and in every executor.
#[pyfunction]
pub(crate) fn set_check_finite(check: bool) {
    session().set_check_finite(check);
}

/// Whether ops are put on the tape; returns what was before.
#[pyfunction]
pub(crate) fn set_grad_enabled(enabled: bool) -> bool {
    session().set_grad_enabled(enabled)
}

/// Whether ops are put on the tape.
#[pyfunction]
pub(crate) fn is_grad_enabled() -> bool {
    session().is_grad_enabled()
}
