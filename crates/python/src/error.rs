//! Errors of the engine as Python exceptions, and the ways into the engine.
//!
//! A handful of classes, all of them `BiremeError`, each also the built-in class that a user would
//! catch. A panic never passes: it becomes an `InternalError` that asks for a report.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bireme_engine::Error;
use pyo3::exceptions::{
    PyLookupError, PyMemoryError, PyNotImplementedError, PyOSError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::executor::take_raised;

/// The exception classes.
struct Classes {
    base: Py<PyType>,
    invalid_argument: Py<PyType>,
    not_found: Py<PyType>,
    unimplemented: Py<PyType>,
    unavailable: Py<PyType>,
    file: Py<PyType>,
    out_of_memory: Py<PyType>,
    internal: Py<PyType>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

fn classes(py: Python<'_>) -> PyResult<&Classes> {
    CLASSES.get_or_try_init(py, || {
        let runtime = py.get_type::<PyRuntimeError>();
        let base = PyErr::new_type(
            py,
            c"bireme.BiremeError",
            Some(c"Something that Bireme cannot do as asked."),
            Some(&runtime),
            None,
        )?;
        let class = |name: &str, doc: &str, also: Option<Bound<'_, PyType>>| {
            let bases = match also {
                Some(also) => PyTuple::new(py, [base.bind(py), &also])?,
                None => PyTuple::new(py, [base.bind(py)])?,
            };
            let body = PyDict::new(py);
            body.set_item("__doc__", doc)?;
            body.set_item("__module__", "bireme")?;
            let class = py.get_type::<PyType>().call1((name, bases, body))?;
            PyResult::Ok(class.cast_into::<PyType>()?.unbind())
        };
        Ok(Classes {
            invalid_argument: class(
                "InvalidArgumentError",
                "An argument, a shape or an element type does not fit.",
                Some(py.get_type::<PyValueError>()),
            )?,
            not_found: class(
                "NotFoundError",
                "A variable or a file's content is not there.",
                Some(py.get_type::<PyLookupError>()),
            )?,
            unimplemented: class(
                "UnimplementedError",
                "Paddle has it, this version does not.",
                Some(py.get_type::<PyNotImplementedError>()),
            )?,
            unavailable: class(
                "UnavailableError",
                "A device or a service is not there, or a variable is in use.",
                None,
            )?,
            file: class(
                "FileError",
                "A file cannot be read, written or understood.",
                Some(py.get_type::<PyOSError>()),
            )?,
            out_of_memory: class(
                "ResourceExhaustedError",
                "A tensor does not fit into memory.",
                Some(py.get_type::<PyMemoryError>()),
            )?,
            internal: class("InternalError", "A mistake in Bireme itself.", None)?,
            base,
        })
    })
}

/// Puts the classes into the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let all = classes(py)?;
    for class in [
        &all.base,
        &all.invalid_argument,
        &all.not_found,
        &all.unimplemented,
        &all.unavailable,
        &all.file,
        &all.out_of_memory,
        &all.internal,
    ] {
        let class = class.bind(py);
        module.add(class.name()?, class)?;
    }
    Ok(())
}

/// The exception for an engine error.
pub(crate) fn to_py(error: Error) -> PyErr {
    Python::attach(|py| {
        // A Python function that the engine called (a hook) has raised: that says more.
        if let Some(raised) = take_raised(py) {
            return raised;
        }
        let text = error.to_string();
        let Ok(all) = classes(py) else { return PyRuntimeError::new_err(text) };
        let class = match error {
            Error::File { .. } => &all.file,
            Error::NotInitialized { .. } => &all.not_found,
            Error::Device { .. } | Error::InUse { .. } | Error::Remote { .. } => &all.unavailable,
            Error::NotFinite { .. } => &all.base,
            Error::OutOfMemory { .. } | Error::DeviceMemory { .. } => &all.out_of_memory,
            Error::Internal { .. } => &all.internal,
            _ => &all.invalid_argument,
        };
        PyErr::from_type(class.bind(py).clone(), text)
    })
}

/// The exception for something that this version does not have.
pub(crate) fn unimplemented(text: &str) -> PyErr {
    Python::attach(|py| match classes(py) {
        Ok(all) => PyErr::from_type(all.unimplemented.bind(py).clone(), text.to_owned()),
        Err(error) => error,
    })
}

/// The exception for something that is there, but not now.
pub(crate) fn unavailable(text: &str) -> PyErr {
    Python::attach(|py| match classes(py) {
        Ok(all) => PyErr::from_type(all.unavailable.bind(py).clone(), text.to_owned()),
        Err(error) => error,
    })
}

/// Runs `work` with the interpreter free for other threads; errors and panics become exceptions,
/// and a Ctrl-C that came meanwhile is raised.
pub(crate) fn enter<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> bireme_engine::Result<T> + Send,
) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    // What a signal handler raised while the work asked for signals; see `executor`.
    if let Some(raised) = take_raised(py) {
        return Err(raised);
    }
    py.check_signals()?;
    finish(outcome)
}

/// As [`enter`], for work with data.
pub(crate) fn enter_data<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> bireme_data::Result<T> + Send,
) -> PyResult<T> {
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    if let Some(raised) = take_raised(py) {
        return Err(raised);
    }
    py.check_signals()?;
    match outcome {
        Ok(result) => result.map_err(data_to_py),
        Err(panic) => Err(to_py(Error::caught(panic))),
    }
}

/// The exception for an error of reading data.
pub(crate) fn data_to_py(error: bireme_data::Error) -> PyErr {
    use bireme_data::Error as Data;

    Python::attach(|py| {
        let text = error.to_string();
        let Ok(all) = classes(py) else { return PyRuntimeError::new_err(text) };
        let class = match error {
            Data::Engine(error) => return to_py(error),
            Data::File { .. } => &all.file,
            Data::Pipe(_) => &all.base,
            _ => &all.invalid_argument,
        };
        PyErr::from_type(class.bind(py).clone(), text)
    })
}

/// Runs `work` without letting the interpreter go: for work shorter than the letting go, and for
/// work that calls Python.
pub(crate) fn enter_held<T>(
    _py: Python<'_>,
    work: impl FnOnce() -> bireme_engine::Result<T>,
) -> PyResult<T> {
    finish(catch_unwind(AssertUnwindSafe(work)))
}

fn finish<T>(outcome: Result<bireme_engine::Result<T>, Box<dyn Any + Send>>) -> PyResult<T> {
    match outcome {
        Ok(result) => result.map_err(to_py),
        Err(panic) => Err(to_py(Error::caught(panic))),
    }
}
