//! Settings from a Python dictionary: each is asked for by name, and none may be left over.

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyDictMethods};

/// The settings of one thing that have not been asked for yet.
pub(crate) struct Kwargs<'py> {
    what: String,
    left: Bound<'py, PyDict>,
}

impl<'py> Kwargs<'py> {
    /// The settings of `what`, which error messages name.
    pub(crate) fn new(what: String, given: &Bound<'py, PyDict>) -> PyResult<Kwargs<'py>> {
        Ok(Kwargs { what, left: given.copy()? })
    }

    /// The setting `name` as it is; `None` when it is missing or `None`.
    pub(crate) fn object(&mut self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(value) = self.left.get_item(name)? else { return Ok(None) };
        self.left.del_item(name)?;
        Ok(Some(value).filter(|value| !value.is_none()))
    }

    /// The setting `name`; `None` when it is missing or `None`.
    pub(crate) fn maybe<T>(&mut self, name: &str) -> PyResult<Option<T>>
    where
        T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
    {
        let Some(value) = self.object(name)? else { return Ok(None) };
        let wrong = |error: PyErr| {
            PyTypeError::new_err(format!("{}: `{name}`: {}", self.what, error.value(value.py())))
        };
        value.extract().map(Some).map_err(wrong)
    }

    /// The setting `name`, or `default`.
    pub(crate) fn or<T>(&mut self, name: &str, default: T) -> PyResult<T>
    where
        T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
    {
        Ok(self.maybe(name)?.unwrap_or(default))
    }

    /// The setting `name`, which must be given.
    pub(crate) fn need<T>(&mut self, name: &str) -> PyResult<T>
    where
        T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
    {
        let value = self.maybe(name)?;
        value.ok_or_else(|| PyKeyError::new_err(format!("{}: `{name}` is missing", self.what)))
    }

    /// The setting `name` as it is, which must be given.
    pub(crate) fn take(&mut self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let value = self.object(name)?;
        value.ok_or_else(|| PyKeyError::new_err(format!("{}: `{name}` is missing", self.what)))
    }

    /// That nothing is left over.
    pub(crate) fn end(self) -> PyResult<()> {
        let left: Vec<String> = self.left.keys().extract()?;
        match left.first() {
            None => Ok(()),
            Some(name) => {
                Err(PyTypeError::new_err(format!("{} has no setting `{name}`", self.what)))
            }
        }
    }
}
