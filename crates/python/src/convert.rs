//! Element types and attributes between Python and programs.

use bireme_engine::DType;
use bireme_engine::ir::{Attr, AttrKind, Scalar};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyString};

/// The element type that a name (`"float32"`, also with a module before it), a number of Paddle's
/// `VarType`, a numpy type or a dtype object stands for.
pub(crate) fn dtype_of(value: &Bound<'_, PyAny>) -> PyResult<DType> {
    if let Ok(dtype) = value.cast::<crate::dtype::DType>() {
        return Ok(dtype.get().0);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return named(text.to_str()?);
    }
    if let Ok(code) = value.extract::<i32>() {
        return DType::from_code(code).ok_or_else(|| {
            PyValueError::new_err(format!("no element type has the number {code}"))
        });
    }
    for attribute in ["name", "__name__"] {
        if let Ok(name) = value.getattr(attribute)
            && let Ok(name) = name.cast::<PyString>()
        {
            return named(name.to_str()?);
        }
    }
    Err(PyTypeError::new_err(format!("{} is no element type", value.repr()?)))
}

fn named(name: &str) -> PyResult<DType> {
    let short = name.rsplit('.').next().unwrap_or(name);
    let short = match short {
        "float" => "float32",
        "int" => "int64",
        "bool_" => "bool",
        // Paddle keeps bfloat16 in numpy's uint16.
        "uint16" => "bfloat16",
        other => other,
    };
    DType::from_name(short).ok_or_else(|| {
        let known: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        PyTypeError::new_err(format!("no element type `{name}`: there are {}", known.join(", ")))
    })
}

/// The Python object of an element type.
pub(crate) fn dtype_object(py: Python<'_>, dtype: DType) -> PyResult<Py<PyAny>> {
    Ok(crate::dtype::object(py, dtype)?.into_any())
}

/// An attribute's value. Where the op declares its type, that type; element types become numbers.
pub(crate) fn attr_of(
    value: &Bound<'_, PyAny>,
    name: &str,
    kind: Option<AttrKind>,
) -> PyResult<Attr> {
    let attr = match kind {
        Some(AttrKind::Int)
            if !value.is_instance_of::<PyInt>() && !value.hasattr("__index__")? =>
        {
            match value.extract::<f64>() {
                Ok(number) => Attr::Float64(number),
                Err(_) => match dtype_of(value) {
                    Ok(dtype) => Attr::Int(dtype.code()),
                    Err(_) => natural(value)?,
                },
            }
        }
        Some(AttrKind::Block) => Attr::Block(value.extract()?),
        _ => natural(value)?,
    };
    let Some(kind) = kind else { return Ok(narrow(attr)) };
    attr.coerce(kind).ok_or_else(|| {
        let given = attr.kind();
        PyTypeError::new_err(format!("attribute `{name}` takes {kind}, not {given}"))
    })
}

/// The widest type of a Python value.
fn natural(value: &Bound<'_, PyAny>) -> PyResult<Attr> {
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Attr::Bool(truth.is_true()));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Attr::String(text.to_str()?.to_owned()));
    }
    if value.cast::<PyFloat>().is_err()
        && let Ok(number) = value.extract::<i64>()
    {
        return Ok(Attr::Long(number));
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(Attr::Float64(number));
    }
    if let Ok(list) = value.extract::<Vec<bool>>() {
        return Ok(Attr::Bools(list));
    }
    if let Ok(list) = value.extract::<Vec<i64>>() {
        return Ok(Attr::Longs(list));
    }
    if let Ok(list) = value.extract::<Vec<f64>>() {
        return Ok(Attr::Float64s(list));
    }
    if let Ok(list) = value.extract::<Vec<String>>() {
        return Ok(Attr::Strings(list));
    }
    match dtype_of(value) {
        Ok(dtype) => Ok(Attr::Int(dtype.code())),
        Err(_) => Err(PyTypeError::new_err(format!("{} is no attribute value", value.repr()?))),
    }
}

/// The type that Paddle stores an undeclared attribute with: the narrow one when the value fits.
fn narrow(attr: Attr) -> Attr {
    let kind = match &attr {
        Attr::Long(_) => AttrKind::Int,
        Attr::Float64(_) => AttrKind::Float,
        Attr::Longs(_) => AttrKind::Ints,
        Attr::Float64s(_) => AttrKind::Floats,
        _ => return attr,
    };
    attr.coerce(kind).unwrap_or(attr)
}

/// An attribute as a Python value.
pub(crate) fn attr_object(py: Python<'_>, attr: &Attr) -> PyResult<Py<PyAny>> {
    match attr {
        Attr::Int(value) | Attr::Block(value) => value.into_py_any(py),
        Attr::Float(value) => value.into_py_any(py),
        Attr::String(value) | Attr::Var(value) => value.into_py_any(py),
        Attr::Ints(list) | Attr::Blocks(list) => list.into_py_any(py),
        Attr::Floats(list) => list.into_py_any(py),
        Attr::Strings(list) | Attr::Vars(list) => list.into_py_any(py),
        Attr::Bool(value) => value.into_py_any(py),
        Attr::Bools(list) => list.into_py_any(py),
        Attr::Long(value) => value.into_py_any(py),
        Attr::Longs(list) => list.into_py_any(py),
        Attr::Float64(value) => value.into_py_any(py),
        Attr::Float64s(list) => list.into_py_any(py),
        Attr::Scalar(value) => scalar_object(py, *value),
        Attr::Scalars(list) => {
            let values = list.iter().map(|value| scalar_object(py, *value));
            PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)?.into_py_any(py)
        }
    }
}

fn scalar_object(py: Python<'_>, scalar: Scalar) -> PyResult<Py<PyAny>> {
    match scalar {
        Scalar::Bool(value) => value.into_py_any(py),
        Scalar::Long(value) => value.into_py_any(py),
        Scalar::Float64(value) => value.into_py_any(py),
        Scalar::Complex(re, im) => PyComplex::from_doubles(py, re, im).into_py_any(py),
    }
}
