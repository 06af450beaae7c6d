//! What Paddle keeps for the whole process: default programs, names, current scope, mode.
//!
//! The engine has no such state; it is here because Paddle's API has it. Everything is read and
//! replaced while the interpreter is held, and no Python code runs inside the lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bireme_engine::graph::{Graph, Names};
use bireme_engine::ir::{Attr, Op};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::program::Program;
use crate::scope::Scope;

struct Context {
    main: Py<Program>,
    startup: Py<Program>,
    names: Py<UniqueNames>,
    scope: Py<Scope>,
}

static CONTEXT: PyOnceLock<Mutex<Context>> = PyOnceLock::new();

/// Whether ops without inputs are appended to the default program instead of being run.
static STATIC_MODE: AtomicBool = AtomicBool::new(false);

/// The device that appended ops are marked with; none when empty.
static DEVICE: Mutex<String> = Mutex::new(String::new());

/// Marks the ops that are appended from now on with `device`, none when empty; returns the mark
/// that held before.
#[pyfunction]
pub(crate) fn switch_device(device: &str) -> String {
    let mut held = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut held, device.to_owned())
}

/// Marks `op` with the device that `device_guard` names, if it names one.
pub(crate) fn mark_device(op: &mut Op) {
    let device = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    if !device.is_empty() {
        let mark = Attr::String(device.clone());
        op.attrs.entry("op_device".to_owned()).or_insert(mark);
    }
}

/// A generator of unique names: `fc` gives `fc_0`, then `fc_1`.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct UniqueNames(pub(crate) Names);

#[pymethods]
impl UniqueNames {
    #[new]
    #[pyo3(signature = (prefix=""))]
    fn new(prefix: &str) -> UniqueNames {
        UniqueNames(Names::with_prefix(prefix))
    }

    /// The next name that starts with `key`.
    fn __call__(&self, key: &str) -> String {
        self.0.unique(key)
    }
}

fn with<T>(py: Python<'_>, work: impl FnOnce(&mut Context) -> T) -> PyResult<T> {
    let context = CONTEXT.get_or_try_init(py, || {
        PyResult::Ok(Mutex::new(Context {
            main: Py::new(py, Program::default())?,
            startup: Py::new(py, Program::default())?,
            names: Py::new(py, UniqueNames(Names::new()))?,
            scope: Py::new(py, Scope::default())?,
        }))
    })?;
    Ok(work(&mut context.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The names that layers of both modes are given.
pub(crate) fn names(py: Python<'_>) -> PyResult<Names> {
    with(py, |context| context.names.get().0.clone())
}

/// A graph that builds `main`, with the default startup program unless another is given.
pub(crate) fn graph(
    py: Python<'_>,
    main: &Program,
    startup: Option<&Program>,
    site: Option<&str>,
) -> PyResult<Graph> {
    let startup = match startup {
        Some(startup) => startup.handle.clone(),
        None => default_startup_program(py)?.get().handle.clone(),
    };
    let graph = Graph::from_parts(main.handle.clone(), startup, names(py)?);
    Ok(match site {
        Some(site) => graph.at_site(site),
        None => graph,
    })
}

/// Whether ops run at once.
#[pyfunction]
pub(crate) fn in_dynamic_mode() -> bool {
    !STATIC_MODE.load(Ordering::Relaxed)
}

/// Makes ops without inputs go to the default main program.
#[pyfunction]
pub(crate) fn enable_static() {
    STATIC_MODE.store(true, Ordering::Relaxed);
}

/// Makes ops run at once.
#[pyfunction]
pub(crate) fn disable_static() {
    STATIC_MODE.store(false, Ordering::Relaxed);
}

/// The program that layers build.
#[pyfunction]
pub(crate) fn default_main_program(py: Python<'_>) -> PyResult<Py<Program>> {
    with(py, |context| context.main.clone_ref(py))
}

/// The program that gives parameters their first values.
#[pyfunction]
pub(crate) fn default_startup_program(py: Python<'_>) -> PyResult<Py<Program>> {
    with(py, |context| context.startup.clone_ref(py))
}

/// Makes `program` the default main program and returns the one before.
#[pyfunction]
pub(crate) fn switch_main_program(py: Python<'_>, program: Py<Program>) -> PyResult<Py<Program>> {
    with(py, |context| std::mem::replace(&mut context.main, program))
}

/// Makes `program` the default startup program and returns the one before.
#[pyfunction]
pub(crate) fn switch_startup_program(
    py: Python<'_>,
    program: Py<Program>,
) -> PyResult<Py<Program>> {
    with(py, |context| std::mem::replace(&mut context.startup, program))
}

/// A name that the current generator has not given before.
#[pyfunction]
pub(crate) fn unique_name(py: Python<'_>, prefix: &str) -> PyResult<String> {
    Ok(names(py)?.unique(prefix))
}

/// Makes `names` the current generator and returns the one before.
#[pyfunction]
pub(crate) fn switch_names(py: Python<'_>, names: Py<UniqueNames>) -> PyResult<Py<UniqueNames>> {
    with(py, |context| std::mem::replace(&mut context.names, names))
}

/// The scope that programs run in when none is named.
#[pyfunction]
pub(crate) fn global_scope(py: Python<'_>) -> PyResult<Py<Scope>> {
    with(py, |context| context.scope.clone_ref(py))
}

/// Makes `scope` the current one and returns the one before.
#[pyfunction]
pub(crate) fn switch_scope(py: Python<'_>, scope: Py<Scope>) -> PyResult<Py<Scope>> {
    with(py, |context| std::mem::replace(&mut context.scope, scope))
}
