//! Where eager tensors are put: the host, its page-locked memory, or a card.

use std::sync::Arc;

use bireme_engine::eager::{EagerCard, Held};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Place, Value};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::card::{self, Current};
use crate::error::to_py;
use crate::place::{CPUPlace, CUDAPinnedPlace, CUDAPlace, device_of};
use crate::session::session;

/// Tensors of up to this many bytes stay on the host, too, when they go to a card: numbers that say shapes and positions
/// are often looked at.
const SMALL: usize = 4096;

/// Tensors of up to this many bytes go to a card by way of page-locked memory; larger ones would lock too much of it.
const STAGED: usize = 64 << 20;

/// A place for tensors.
#[derive(Clone)]
pub(crate) enum Home {
    Host,
    /// Memory of the host that cards copy from by themselves.
    PageLocked,
    Card(Arc<EagerCard>),
}

impl Home {
    /// Where new tensors belong.
    pub(crate) fn current() -> PyResult<Home> {
        Home::of(&card::current())
    }

    /// The place that an object or its name (`"gpu:0"`) means; the current one for `None`.
    pub(crate) fn named(place: Option<&Bound<'_, PyAny>>) -> PyResult<Home> {
        let Some(place) = place.filter(|place| !place.is_none()) else { return Home::current() };
        if place.is_instance_of::<CUDAPinnedPlace>() {
            return Ok(Home::PageLocked);
        }
        if let Ok(name) = place.cast::<PyString>() {
            return Home::from_name(name.py(), name.to_str()?);
        }
        Home::of(&device_of(Some(place))?)
    }

    fn from_name(py: Python<'_>, name: &str) -> PyResult<Home> {
        let lower = name.to_lowercase();
        let (kind, number) = lower.split_once(':').unwrap_or((&lower, "0"));
        match (kind, number.parse::<u32>()) {
            ("cpu", _) => Ok(Home::Host),
            ("gpu_pinned", _) => Ok(Home::PageLocked),
            ("gpu" | "cuda", Ok(number)) => {
                let card = card::asked_for(py, number)?;
                Home::of(&card.map_or(Current::Host, Current::Card))
            }
            _ => Err(PyValueError::new_err(format!(
                "there is no device '{name}': use 'cpu', 'gpu' or 'gpu:0'"
            ))),
        }
    }

    fn of(device: &Current) -> PyResult<Home> {
        match device {
            Current::Host => Ok(Home::Host),
            Current::Card(device) => session().card(device).map(Home::Card).map_err(to_py),
        }
    }

    /// Where a tensor belongs.
    pub(crate) fn of_held(held: &Held) -> Home {
        match held.home() {
            Some(card) => Home::Card(Arc::clone(card)),
            None if held.is_page_locked() => Home::PageLocked,
            None => Home::Host,
        }
    }

    /// The card, if it is one.
    pub(crate) fn card(&self) -> Option<&Arc<EagerCard>> {
        match self {
            Home::Card(card) => Some(card),
            Home::Host | Home::PageLocked => None,
        }
    }

    /// A tensor put there.
    pub(crate) fn hold(&self, tensor: Tensor) -> PyResult<Held> {
        match self {
            Home::Host => Ok(Held::new(tensor)),
            Home::PageLocked => page_locked(&tensor),
            Home::Card(card) => {
                let is_small = tensor.as_bytes().len() <= SMALL;
                if is_small {
                    let held = Held::at(tensor, Some(Arc::clone(card)));
                    held.card(card).map_err(to_py)?;
                    return Ok(held);
                }
                staged(card, tensor).map_err(to_py)
            }
        }
    }

    /// The elements of a tensor put there, if they are not there already.
    pub(crate) fn bring(&self, held: &Arc<Held>) -> PyResult<Arc<Held>> {
        let is_there = match self {
            Home::Host => held.home().is_none() && !held.is_page_locked(),
            Home::PageLocked => held.is_page_locked(),
            Home::Card(card) => held.place() == card.place(),
        };
        if is_there {
            return Ok(Arc::clone(held));
        }
        let moved = match self {
            Home::Host => held.moved(None).map_err(to_py)?,
            Home::Card(card) => held.moved(Some(card)).map_err(to_py)?,
            Home::PageLocked => match held.host().map_err(to_py)? {
                Value::Tensor(tensor) => page_locked(tensor)?,
                Value::Rows(_) => {
                    let text = "selected rows cannot be put into page-locked memory";
                    return Err(PyTypeError::new_err(text));
                }
            },
        };
        Ok(Arc::new(moved))
    }
}

/// A tensor on a card, by way of page-locked memory: the host does not wait for the copy.
fn staged(card: &Arc<EagerCard>, tensor: Tensor) -> bireme_engine::Result<Held> {
    if tensor.as_bytes().len() > STAGED {
        return Held::new(tensor).moved(Some(card));
    }
    match Held::page_locked(card, &tensor) {
        Ok(held) => held.moved(Some(card)),
        // The system may forbid to lock pages.
        Err(_) => Held::new(tensor).moved(Some(card)),
    }
}

/// A copy in page-locked memory: of the current card, or the first; plain memory where there is none to copy to.
fn page_locked(tensor: &Tensor) -> PyResult<Held> {
    let card = match Home::current()? {
        Home::Card(card) => Some(card),
        _ => Python::attach(|py| Home::from_name(py, "gpu:0"))?.card().cloned(),
    };
    match card {
        Some(card) => Held::page_locked(&card, tensor).map_err(to_py),
        None => Ok(Held::new(tensor.clone())),
    }
}

/// Where a tensor belongs, as Python sees it.
pub(crate) fn place_object(py: Python<'_>, held: &Held) -> PyResult<Py<PyAny>> {
    match held.place() {
        Place::Cuda(number) => CUDAPlace::of_card(number).into_py_any(py),
        Place::Cpu if held.is_page_locked() => CUDAPinnedPlace::of_host().into_py_any(py),
        Place::Cpu => CPUPlace.into_py_any(py),
    }
}
