//! The cards of this process: which are open, and which device is current.
//!
//! A card stays open once it was asked for. The current device is what `paddle.set_device` chose: new tensors
//! belong to it, and executors that were given no place run on it.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, RwLock};

use bireme_cuda::driver::libraries::load_hints;
use bireme_engine::device::{Device, MemoryPlan};
use bireme_engine::{Error, Result as EngineResult};
use pyo3::exceptions::{PyRuntimeWarning, PyValueError};
use pyo3::prelude::*;

use crate::error::enter;

/// The variable that sends scripts which ask for a card to the host, when it says `cpu`.
const DEVICE_VARIABLE: &str = "BIREME_DEVICE";

/// Where new tensors belong, and executors without a place run.
#[derive(Clone)]
pub(crate) enum Current {
    /// The processors of this machine.
    Host,
    /// A card.
    Card(Arc<dyn Device>),
}

static CURRENT: RwLock<Current> = RwLock::new(Current::Host);

/// Cards that were asked for. They are not closed: memory of a card may be anywhere until the process ends.
static OPEN: Mutex<BTreeMap<u32, Arc<dyn Device>>> = Mutex::new(BTreeMap::new());

/// The current device.
pub(crate) fn current() -> Current {
    CURRENT.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Makes `device` the current one.
pub(crate) fn set_current(device: Current) {
    *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = device;
}

/// Opens a card, by its number; one that is open already is the same.
///
/// # Errors
/// When there is none, or its driver cannot be used: the message says what to do.
pub(crate) fn open(number: u32) -> PyResult<Arc<dyn Device>> {
    Python::attach(|py| {
        find_packages(py)?;
        enter(py, || open_known(number))
    })
}

/// As [`open`], for a thread that has let go of the interpreter.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_inside(number: u32) -> EngineResult<Arc<dyn Device>> {
    Python::attach(find_packages).map_err(|error| Error::Device { problem: error.to_string() })?;
    open_known(number)
}

fn open_known(number: u32) -> EngineResult<Arc<dyn Device>> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = open.get(&number) {
        return Ok(Arc::clone(device));
    }
    let device = bireme_cuda::open(number).map_err(|error| unusable(number, &error))?;
    open.insert(number, Arc::clone(&device));
    drop(open);
    if bireme_cuda::is_emulated() {
        // After an error of this the card is open all the same.
        Python::attach(|py| warn_once(py, &EMULATED, EMULATED_TEXT)).ok();
    }
    Ok(device)
}

/// The card that a script asks for; `None` where `BIREME_DEVICE=cpu` sends it to the host, which is said once, and
/// in a parameter server, which has no use for one: the same script makes servers and trainers.
pub(crate) fn asked_for(py: Python<'_>, number: u32) -> PyResult<Option<Arc<dyn Device>>> {
    if std::env::var("TRAINING_ROLE").as_deref() == Ok("PSERVER") {
        return Ok(None);
    }
    check_variable()?;
    if is_host_forced() {
        warn_once(py, &ON_HOST, ON_HOST_TEXT)?;
        return Ok(None);
    }
    open(number).map(Some)
}

/// That the variable says something that is known.
fn check_variable() -> PyResult<()> {
    match std::env::var(DEVICE_VARIABLE).as_deref().map(str::trim) {
        Err(_) | Ok("" | "cpu" | "emulated") => Ok(()),
        Ok(other) => Err(PyValueError::new_err(format!(
            "the environment variable `{DEVICE_VARIABLE}` is `{other}`, which must be `cpu` or `emulated`"
        ))),
    }
}

/// The numbers of the cards that are open.
pub(crate) fn opened() -> Vec<u32> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
}

/// The first of the cards that are open.
pub(crate) fn any_open() -> Option<Arc<dyn Device>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).values().next().cloned()
}

/// How many cards can be used; none where there is no driver, or `BIREME_DEVICE=cpu`.
pub(crate) fn count(py: Python<'_>) -> PyResult<usize> {
    if is_host_forced() {
        return Ok(0);
    }
    find_packages(py)?;
    enter(py, || Ok(bireme_cuda::count().unwrap_or(0)))
}

fn unusable(number: u32, error: &Error) -> Error {
    let problem = format!(
        "GPU {number} cannot be used: {error}; use `CPUPlace()`, or set {DEVICE_VARIABLE}=cpu to run this script \
         on the CPU"
    );
    Error::Device { problem }
}

/// Whether the environment sends what asks for a card to the host.
pub(crate) fn is_host_forced() -> bool {
    std::env::var(DEVICE_VARIABLE).as_deref() == Ok("cpu")
}

static ON_HOST: AtomicBool = AtomicBool::new(false);
const ON_HOST_TEXT: &CStr = c"BIREME_DEVICE=cpu: what asks for a GPU runs on the CPU";
static EMULATED: AtomicBool = AtomicBool::new(false);
const EMULATED_TEXT: &CStr =
    c"BIREME_DEVICE=emulated: GPUs are emulated by the processor, which is slow: for trying a \
    configuration";

fn warn_once(py: Python<'_>, warned: &AtomicBool, text: &CStr) -> PyResult<()> {
    if warned.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), text, 1)
}

/// Says where pip puts NVIDIA's packages: in folders of `sys.path`.
pub(crate) fn find_packages(py: Python<'_>) -> PyResult<()> {
    static SAID: Once = Once::new();
    if SAID.is_completed() {
        return Ok(());
    }
    let path = py.import("sys")?.getattr("path")?;
    let folders: Vec<PathBuf> = path
        .try_iter()?
        .filter_map(|folder| folder.ok()?.extract::<PathBuf>().ok())
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();
    SAID.call_once(|| load_hints(&folders));
    Ok(())
}

/// Warns of tables that stay on the host.
pub(crate) fn say_at_home(plan: &MemoryPlan) {
    if let Some(text) = plan.says_at_home() {
        warn(&text);
    }
}

/// Warns where Python shows warnings, from any thread.
pub(crate) fn warn(text: &str) {
    let Ok(text) = CString::new(text) else { return };
    Python::attach(|py| {
        // A filter that makes warnings errors has its way where the step ends.
        if let Err(raised) = PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 1) {
            raised.restore(py);
        }
    });
}
