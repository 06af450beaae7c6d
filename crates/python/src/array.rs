//! Arrays between numpy and the engine.
//!
//! In: the elements are copied once, converted by numpy where types differ. Out: an array that
//! looks at the engine's memory and keeps it alive.

#![expect(unsafe_code, reason = "numpy arrays are memory behind a C interface")]

use bireme_engine::eager::HostValue;
use bireme_engine::tensor::{Dims, MAX_RANK, Tensor};
use bireme_engine::{DType, Value};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFloat, PyInt};

use crate::error::to_py;
use crate::window::{Access, array_over, element_type, into_array};

/// A value that an array looks at.
#[pyclass(frozen, module = "bireme._core")]
struct SharedMemory {
    _value: HostValue,
}

/// The numpy type of an element type; bfloat16 travels as uint16, as in Paddle.
pub(crate) fn descr(py: Python<'_>, dtype: DType) -> Bound<'_, PyArrayDescr> {
    match dtype {
        DType::Bool => numpy::dtype::<bool>(py),
        DType::U8 => numpy::dtype::<u8>(py),
        DType::I8 => numpy::dtype::<i8>(py),
        DType::I16 => numpy::dtype::<i16>(py),
        DType::I32 => numpy::dtype::<i32>(py),
        DType::I64 => numpy::dtype::<i64>(py),
        DType::F16 => numpy::dtype::<half::f16>(py),
        DType::BF16 => numpy::dtype::<u16>(py),
        DType::F32 => numpy::dtype::<f32>(py),
        DType::F64 => numpy::dtype::<f64>(py),
    }
}

/// A value as a C-contiguous array of a type that tensors have; `dtype` converts.
pub(crate) fn contiguous<'py>(
    value: &Bound<'py, PyAny>,
    dtype: Option<DType>,
) -> PyResult<(Bound<'py, PyUntypedArray>, DType)> {
    let py = value.py();
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        let descr = array.dtype();
        let native = descr.is_native_byteorder().unwrap_or(true);
        if array.is_c_contiguous() && native {
            let given = element_type(&descr)?;
            if dtype.is_none_or(|dtype| dtype == given) {
                return Ok((array.clone(), given));
            }
        }
    }
    let options = PyDict::new(py);
    options.set_item("order", "C")?;
    if let Some(dtype) = dtype {
        options.set_item("dtype", descr(py, dtype))?;
    }
    let array = asarray(py)?.call((value,), Some(&options))?;
    let mut array = array.cast_into::<PyUntypedArray>()?;
    if !array.dtype().is_native_byteorder().unwrap_or(true) {
        array = array
            .call_method1("astype", (array.dtype().call_method0("newbyteorder")?,))?
            .cast_into()?;
    }
    let given = element_type(&array.dtype())?;
    Ok((array, given))
}

fn asarray(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static ASARRAY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let function = ASARRAY
        .get_or_try_init(py, || PyResult::Ok(py.import("numpy")?.getattr("asarray")?.unbind()))?;
    Ok(function.bind(py))
}

/// The dimensions of an array.
pub(crate) fn dims_of(array: &Bound<'_, PyUntypedArray>) -> PyResult<Dims> {
    if array.ndim() > MAX_RANK {
        return Err(PyValueError::new_err(format!(
            "an array of {} dimensions is no tensor: {MAX_RANK} is the most",
            array.ndim()
        )));
    }
    Ok(Dims::new(array.shape()))
}

/// The memory of a C-contiguous array.
pub(crate) fn bytes_of<'a>(array: &'a Bound<'_, PyUntypedArray>) -> &'a [u8] {
    let len = array.len() * array.dtype().itemsize();
    if len == 0 {
        return &[];
    }
    // SAFETY: a C-contiguous array has `len` bytes at `data`; the array outlives the slice, and the
    // interpreter is held while it is read.
    unsafe { std::slice::from_raw_parts((*array.as_array_ptr()).fields.data.cast::<u8>(), len) }
}

/// A tensor with a copy of an array, a number, or nested lists of numbers. Python's own floats
/// become `float_type`.
pub(crate) fn tensor_from(
    value: &Bound<'_, PyAny>,
    dtype: Option<DType>,
    float_type: DType,
) -> PyResult<Tensor> {
    if dtype == Some(DType::BF16) && !is_bits(value)? {
        return Ok(to_bf16(&tensor_from(value, Some(DType::F32), DType::F32)?));
    }
    let is_array = value.is_instance_of::<PyUntypedArray>() || value.hasattr("dtype")?;
    let (array, given) = contiguous(value, dtype)?;
    let is_python_float = dtype.is_none() && !is_array && given == DType::F64;
    let (array, given) = if is_python_float && float_type != DType::F64 {
        contiguous(array.as_any(), Some(float_type))?
    } else {
        (array, given)
    };
    let dtype = dtype.unwrap_or(given);
    let mut tensor = Tensor::zeros(dtype, dims_of(&array)?);
    tensor.as_mut_bytes().copy_from_slice(bytes_of(&array));
    Ok(tensor)
}

/// Whether a value is an array of bfloat16 in the only form that numpy has for it.
fn is_bits(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(array) = value.cast::<PyUntypedArray>() else { return Ok(false) };
    Ok(element_type(&array.dtype())? == DType::BF16)
}

fn to_bf16(tensor: &Tensor) -> Tensor {
    let mut rounded = Tensor::zeros(DType::BF16, tensor.dims());
    let (from, to) = (tensor.as_slice::<f32>(), rounded.as_mut_slice::<half::bf16>());
    let (from, to) = (from.expect("made of float32"), to.expect("made of bfloat16"));
    for (to, from) in to.iter_mut().zip(from) {
        *to = half::bf16::from_f32(*from);
    }
    rounded
}

/// A scalar tensor of a Python number, in the type of its partner.
pub(crate) fn scalar(value: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Tensor> {
    let mut tensor = Tensor::zeros(dtype, Dims::new(&[]));
    macro_rules! fill {
        ($($variant:ident => $type:ty),*) => {
            match dtype {
                $(DType::$variant => {
                    let number = value.extract::<$type>()?;
                    tensor.as_mut_slice::<$type>().map_err(to_py)?[0] = number;
                    return Ok(tensor);
                })*
                _ => {}
            }
        };
    }
    fill!(F32 => f32, F64 => f64, I64 => i64, I32 => i32);
    tensor_from(value, Some(dtype), dtype)
}

/// Whether a value is a Python (or numpy) number that is not an array.
pub(crate) fn is_number(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>()
}

/// An array that looks at a tensor's memory; it cannot be written, because the tensor's other users
/// would see it.
pub(crate) fn view(py: Python<'_>, value: HostValue) -> PyResult<Bound<'_, PyAny>> {
    let tensor = value.tensor().map_err(to_py)?;
    let (dtype, dims) = (tensor.dtype(), tensor.dims());
    let start = tensor.as_bytes().as_ptr().cast_mut();
    let memory = Bound::new(py, SharedMemory { _value: value.clone() })?;
    // SAFETY: `memory` keeps the tensor, which nobody changes while it is shared, and the array is
    // not writable.
    unsafe { array_over(py, dtype, &dims, start, Access::ReadOnly, memory.into_any()) }
}

/// An array with a copy of a tensor's elements.
pub(crate) fn copied<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    into_array(py, value.tensor().map_err(to_py)?.clone())
}
