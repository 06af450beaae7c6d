//! Places: where programs run and tensors lie.

use std::sync::Arc;

use bireme_engine::Place;
use bireme_engine::device::Device;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::card::{self, Current};
use crate::session;

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

    fn is_cpu_place(&self) -> bool {
        true
    }

    fn is_gpu_place(&self) -> bool {
        false
    }

    fn is_cuda_pinned_place(&self) -> bool {
        false
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

impl CUDAPlace {
    /// Its card; `None` where `BIREME_DEVICE=cpu` sends it to the host.
    pub(crate) fn card(&self, py: Python<'_>) -> PyResult<Option<Arc<dyn Device>>> {
        card::asked_for(py, self.device)
    }

    /// The place of a card that is open.
    pub(crate) fn of_card(device: u32) -> CUDAPlace {
        CUDAPlace { device }
    }
}

#[pymethods]
impl CUDAPlace {
    /// GPU `device`; an error where there is none, unless `BIREME_DEVICE=cpu` sends it to the CPU.
    #[new]
    #[pyo3(signature = (device=0))]
    fn new(py: Python<'_>, device: u32) -> PyResult<CUDAPlace> {
        card::asked_for(py, device)?;
        Ok(CUDAPlace { device })
    }

    fn get_device_id(&self) -> u32 {
        self.device
    }

    fn is_cpu_place(&self) -> bool {
        false
    }

    fn is_gpu_place(&self) -> bool {
        true
    }

    fn is_cuda_pinned_place(&self) -> bool {
        false
    }

    fn gpu_device_id(&self) -> u32 {
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

impl CUDAPinnedPlace {
    /// The place of tensors that lie there.
    pub(crate) fn of_host() -> CUDAPinnedPlace {
        CUDAPinnedPlace
    }
}

#[pymethods]
impl CUDAPinnedPlace {
    #[new]
    fn new(py: Python<'_>) -> PyResult<CUDAPinnedPlace> {
        card::asked_for(py, 0)?;
        Ok(CUDAPinnedPlace)
    }

    fn is_cpu_place(&self) -> bool {
        false
    }

    fn is_gpu_place(&self) -> bool {
        false
    }

    fn is_cuda_pinned_place(&self) -> bool {
        true
    }

    fn __repr__(&self) -> &'static str {
        "Place(gpu_pinned)"
    }
}

/// The device that a place names; the current one for `None`. Page-locked memory is the host's.
pub(crate) fn device_of(place: Option<&Bound<'_, PyAny>>) -> PyResult<Current> {
    let Some(place) = place.filter(|place| !place.is_none()) else { return Ok(card::current()) };
    if let Ok(place_on_card) = place.cast::<CUDAPlace>() {
        let card = place_on_card.get().card(place.py())?;
        return Ok(card.map_or(Current::Host, Current::Card));
    }
    if place.is_instance_of::<CPUPlace>() || place.is_instance_of::<CUDAPinnedPlace>() {
        return Ok(Current::Host);
    }
    Err(PyTypeError::new_err(format!(
        "`place` must be a place such as CPUPlace(), not {}",
        place.get_type().name()?
    )))
}

/// Makes the device that `place` names the current one.
#[pyfunction]
pub(crate) fn set_current_place(place: &Bound<'_, PyAny>) -> PyResult<()> {
    let device = device_of(Some(place))?;
    session::set_current(&device)?;
    card::set_current(device);
    Ok(())
}

/// The number of the card that is current; `None` for the host.
#[pyfunction]
pub(crate) fn current_card() -> Option<u32> {
    match card::current() {
        Current::Card(card) => match card.place() {
            Place::Cuda(number) => Some(number),
            Place::Cpu => None,
        },
        Current::Host => None,
    }
}

/// How many cards can be used: none without a driver.
#[pyfunction]
pub(crate) fn card_count(py: Python<'_>) -> PyResult<usize> {
    card::count(py)
}
