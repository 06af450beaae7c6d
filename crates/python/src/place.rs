//! Places: where programs run.

use std::sync::atomic::{AtomicBool, Ordering};

use bireme_engine::Place;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use crate::error::to_py;

/// Names the device for scripts that ask for one which is not there: `cpu` runs them on the CPU.
const DEVICE_VARIABLE: &str = "BIREME_DEVICE";

/// The processors of this machine.
///
/// >>> paddle.CPUPlace()
/// Place(cpu)
#[pyclass(frozen, eq, hash, weakref, module = "bireme._core")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct CPUPlace;

#[pymethods]
impl CPUPlace {
    #[new]
    fn new() -> CPUPlace {
        CPUPlace
    }

    fn __repr__(&self) -> &'static str {
        "Place(cpu)"
    }
}

/// One GPU, by number.
#[pyclass(frozen, eq, hash, weakref, module = "bireme._core")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct CUDAPlace {
    device: u32,
}

#[pymethods]
impl CUDAPlace {
    /// GPU `device`; an error where there is none, unless `BIREME_DEVICE=cpu` sends it to the CPU.
    #[new]
    #[pyo3(signature = (device=0))]
    fn new(py: Python<'_>, device: u32) -> PyResult<CUDAPlace> {
        on_gpu(py, device)?;
        Ok(CUDAPlace { device })
    }

    fn get_device_id(&self) -> u32 {
        self.device
    }

    fn __repr__(&self) -> String {
        format!("Place(gpu:{})", self.device)
    }
}

/// Memory of the host that GPUs can reach.
#[pyclass(frozen, eq, hash, weakref, module = "bireme._core")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct CUDAPinnedPlace;

#[pymethods]
impl CUDAPinnedPlace {
    #[new]
    fn new(py: Python<'_>) -> PyResult<CUDAPinnedPlace> {
        on_gpu(py, 0)?;
        Ok(CUDAPinnedPlace)
    }

    fn __repr__(&self) -> &'static str {
        "Place(gpu_pinned)"
    }
}

/// That a script which asks for a GPU can go on: with the GPU, or on the CPU if it is told to.
fn on_gpu(py: Python<'_>, device: u32) -> PyResult<()> {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if Place::Cuda(device).check().is_ok() {
        return Ok(());
    }
    if std::env::var(DEVICE_VARIABLE).as_deref() != Ok("cpu") {
        let problem = format!(
            "there is no GPU {device}: use `CPUPlace()`, or set {DEVICE_VARIABLE}=cpu to run this \
             script on the CPU"
        );
        return Err(to_py(bireme_engine::Error::Device { problem }));
    }
    if !WARNED.swap(true, Ordering::Relaxed) {
        let text = c"there is no GPU: BIREME_DEVICE=cpu sends what is meant for it to the CPU";
        PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), text, 1)?;
    }
    Ok(())
}
