//! What `bireme train` shares with Python's trainers: YAML files as Python values, the calendar of
//! a stream, and the AUC of what was counted.

use std::path::Path;

use bireme_rec::config::{Node, Value, parse_keys};
use bireme_rec::run::calendar::{Day, passes};
use numpy::PyReadonlyArray1;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The keys of a YAML text, and warnings about them; errors name the file `path`.
#[pyfunction]
pub(crate) fn parse_yaml<'py>(
    py: Python<'py>,
    text: &str,
    path: &str,
) -> PyResult<(Bound<'py, PyDict>, Vec<String>)> {
    let parsed = parse_keys(Path::new(path), text);
    let (root, warnings) = parsed.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((dictionary(py, &root)?, warnings))
}

/// The folders of each pass of a day of a stream.
#[pyfunction]
pub(crate) fn passes_of_a_day(split_interval: usize, split_per_pass: usize) -> Vec<Vec<String>> {
    passes(split_interval, split_per_pass)
}

/// The day after one, `20190720`.
#[pyfunction]
pub(crate) fn next_day(day: usize) -> PyResult<String> {
    let problem = || PyValueError::new_err(format!("{day} is no day like 20190720"));
    Ok(Day::parse(day).ok_or_else(problem)?.next().to_string())
}

/// The area under the ROC curve, from counts by prediction; 0.5 without samples of both kinds.
#[pyfunction]
pub(crate) fn auc(
    positive: PyReadonlyArray1<'_, f64>,
    negative: PyReadonlyArray1<'_, f64>,
) -> PyResult<f64> {
    Ok(bireme_rec::run::auc(positive.as_slice()?, negative.as_slice()?))
}

fn dictionary<'py>(py: Python<'py>, items: &[(String, Node)]) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(py);
    for (key, node) in items {
        made.set_item(key, object(py, &node.value)?)?;
    }
    Ok(made)
}

fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Int(value) => value.into_bound_py_any(py),
        Value::Float(value) => value.into_bound_py_any(py),
        Value::Text(text) => text.into_bound_py_any(py),
        Value::List(items) => {
            let items = items.iter().map(|node| object(py, &node.value));
            Ok(PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        Value::Map(items) => Ok(dictionary(py, items)?.into_any()),
    }
}
