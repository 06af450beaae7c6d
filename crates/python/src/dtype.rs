//! `DType`: an element type, equal to its name, to numpy's type and to Paddle's number.

use bireme_engine::DType as EngineType;
use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyString, PyType};

use crate::array;
use crate::convert::dtype_of;

/// An element type.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct DType(pub(crate) EngineType);

#[pymethods]
impl DType {
    /// Its name, such as `float32`.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    /// Paddle's number of it.
    #[getter]
    fn value(&self) -> i32 {
        self.0.code()
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    /// Whether it is a floating-point type.
    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_float()
    }

    /// The numpy type; bfloat16 is kept in uint16.
    #[getter]
    fn numpy_dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        array::descr(py, self.0).into_any()
    }

    fn __str__(&self) -> String {
        format!("paddle.{}", self.0.name())
    }

    fn __repr__(&self) -> String {
        self.__str__()
    }

    fn __index__(&self) -> i32 {
        self.0.code()
    }

    /// That of the name, so that a dictionary of names finds it.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::intern(py, self.0.name()).hash()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        if let Ok(other) = other.cast_exact::<DType>() {
            return other.get().0 == self.0;
        }
        if other.is_instance_of::<PyInt>() {
            return other.extract::<i32>().is_ok_and(|code| code == self.0.code());
        }
        let named = other.is_instance_of::<PyString>()
            || other.is_instance_of::<PyType>()
            || other.is_instance_of::<PyArrayDescr>();
        named && dtype_of(other).is_ok_and(|other| other == self.0)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (&'static str,))> {
        Ok((py.import("bireme._core")?.getattr("dtype")?.unbind(), (self.0.name(),)))
    }
}

/// The element type that a name, a numpy type or a number stands for; always the same object.
#[pyfunction]
pub(crate) fn dtype(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Py<DType>> {
    object(py, dtype_of(value)?)
}

/// The one object of an element type.
pub(crate) fn object(py: Python<'_>, dtype: EngineType) -> PyResult<Py<DType>> {
    static OBJECTS: PyOnceLock<Vec<(EngineType, Py<DType>)>> = PyOnceLock::new();
    let objects = OBJECTS.get_or_try_init(py, || {
        EngineType::ALL
            .iter()
            .map(|dtype| Ok((*dtype, Py::new(py, DType(*dtype))?)))
            .collect::<PyResult<Vec<_>>>()
    })?;
    let found = objects.iter().find(|(known, _)| *known == dtype);
    Ok(found.expect("all element types are listed").1.clone_ref(py))
}
