//! `LoDTensor`: a tensor with sequence offsets, of its own or as a variable of a scope.

use std::sync::{Arc, Mutex, PoisonError};

use bireme_engine::tensor::{Lod, Tensor};
use bireme_engine::{DType, Scope as EngineScope};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::convert::dtype_object;
use crate::error::to_py;
use crate::window::{Array, into_array};

/// A tensor whose rows may be grouped into sequences.
#[pyclass(frozen, weakref, module = "bireme._core")]
pub(crate) struct LoDTensor {
    home: Home,
}

enum Home {
    /// Nobody else's; replaced as a whole, so that a step may hold on to what it was fed.
    Own(Mutex<Arc<Tensor>>),
    /// A variable of a scope.
    Scope { scope: EngineScope, name: String },
}

/// Lets the interpreter go: a scope's reader waits for a step, which may itself ask Python for
/// signals.
fn released<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    Python::attach(|py| py.detach(work))
}

impl LoDTensor {
    pub(crate) fn own(tensor: Tensor) -> LoDTensor {
        LoDTensor { home: Home::Own(Mutex::new(Arc::new(tensor))) }
    }

    pub(crate) fn of_scope(scope: EngineScope, name: String) -> LoDTensor {
        LoDTensor { home: Home::Scope { scope, name } }
    }

    /// The tensor as it is now.
    pub(crate) fn tensor(&self) -> PyResult<Arc<Tensor>> {
        match &self.home {
            Home::Own(tensor) => {
                Ok(Arc::clone(&tensor.lock().unwrap_or_else(PoisonError::into_inner)))
            }
            Home::Scope { scope, name } => {
                released(|| scope.get(name)).map(Arc::new).map_err(to_py)
            }
        }
    }

    fn read<T: Send>(&self, look: impl FnOnce(&Tensor) -> T + Send) -> PyResult<T> {
        match &self.home {
            Home::Own(_) => Ok(look(&*self.tensor()?)),
            Home::Scope { scope, name } => {
                let looked = released(|| scope.read(name, |value| value.tensor().map(look)));
                looked.and_then(|looked| looked).map_err(to_py)
            }
        }
    }

    fn replace(&self, new: Tensor) -> PyResult<()> {
        match &self.home {
            Home::Own(tensor) => {
                *tensor.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                Ok(())
            }
            Home::Scope { scope, name } => scope.try_set(name, &new).map_err(to_py),
        }
    }
}

#[pymethods]
impl LoDTensor {
    #[new]
    fn new() -> LoDTensor {
        LoDTensor::own(Tensor::empty(DType::F32))
    }

    /// Takes over a copy of `array`, in its shape and type.
    #[pyo3(signature = (array, place=None))]
    fn set(&self, array: &Bound<'_, PyAny>, place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let _ = place;
        let py = array.py();
        let array = py.import("numpy")?.call_method1("asarray", (array,))?;
        let array = Array::new(&array)?;
        match &self.home {
            Home::Own(_) => self.replace(array.tensor().clone()),
            Home::Scope { scope, name } => scope.try_set(name, array.tensor()).map_err(to_py),
        }
    }

    /// The dimensions.
    fn shape(&self) -> PyResult<Vec<usize>> {
        self.read(|tensor| tensor.dims().to_vec())
    }

    fn _get_dims(&self) -> PyResult<Vec<usize>> {
        self.shape()
    }

    /// The element type.
    fn _dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        dtype_object(py, self.read(Tensor::dtype)?)
    }

    fn _is_initialized(&self) -> bool {
        self.read(|tensor| tensor.numel() > 0).unwrap_or(false)
    }

    /// The offsets of the sequences, level by level.
    fn lod(&self) -> PyResult<Lod> {
        self.read(|tensor| tensor.lod().clone())
    }

    /// Sets the offsets of the sequences.
    fn set_lod(&self, lod: Lod) -> PyResult<()> {
        let tensor = self.tensor()?;
        self.replace((*tensor).clone().with_lod(&lod).map_err(to_py)?)
    }

    /// The lengths of the sequences, level by level.
    fn recursive_sequence_lengths(&self) -> PyResult<Lod> {
        let lengths = |offsets: &Vec<usize>| offsets.windows(2).map(|w| w[1] - w[0]).collect();
        self.read(|tensor| tensor.lod().iter().map(lengths).collect())
    }

    /// Sets the lengths of the sequences.
    fn set_recursive_sequence_lengths(&self, lengths: Lod) -> PyResult<()> {
        self.set_lod(lengths.iter().map(|level| offsets(level)).collect())
    }

    /// Whether the offsets fit the rows; they are checked when they are set.
    fn has_valid_recursive_sequence_lengths(&self) -> PyResult<bool> {
        self.read(|tensor| {
            tensor.lod().last().is_none_or(|level| level.last() == Some(&tensor.rows()))
        })
    }

    /// A copy as a numpy array.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(PyValueError::new_err("the values of a `LoDTensor` are always copied out"));
        }
        let array = into_array(py, self.read(Tensor::clone)?)?;
        match dtype {
            Some(dtype) if !dtype.is_none() => array.call_method1("astype", (dtype,)),
            _ => Ok(array),
        }
    }

    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.__array__(py, None, None)
    }

    fn __len__(&self) -> PyResult<usize> {
        self.read(Tensor::rows)
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        if !self._is_initialized() {
            return Ok("LoDTensor(empty)".to_owned());
        }
        let values = self.__array__(py, None, None)?.str()?;
        Ok(format!("LoDTensor(lod={:?}, {values})", self.lod()?))
    }
}

fn offsets(lengths: &[usize]) -> Vec<usize> {
    let mut sum = 0;
    let ends = lengths.iter().map(|length| {
        sum += length;
        sum
    });
    std::iter::once(0).chain(ends).collect()
}

/// A fetched tensor as an array; one with sequence offsets would lose them.
pub(crate) fn fetched_array(py: Python<'_>, name: &str, tensor: Tensor) -> PyResult<Py<PyAny>> {
    if !tensor.lod().is_empty() {
        return Err(PyRuntimeError::new_err(format!(
            "fetched `{name}` has sequence offsets, which an array cannot hold: pass \
             `return_numpy=False` to get a `LoDTensor`"
        )));
    }
    Ok(into_array(py, tensor)?.unbind())
}
