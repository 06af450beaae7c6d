//! Numpy arrays as tensors and tensors as numpy arrays, without copies.

#![expect(unsafe_code, reason = "memory is shared between Python and the engine")]

use std::ptr::{NonNull, null_mut};

use bireme_engine::DType;
use bireme_engine::tensor::{MAX_RANK, Tensor};
use numpy::npyffi::{
    self, NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, NPY_TYPES, PY_ARRAY_API, npy_intp,
};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A numpy array and the tensor that is a window onto its memory.
pub(crate) struct Array {
    tensor: Tensor,
    /// Keeps the memory in place: an array that is referred to is not resized.
    _memory: Py<PyAny>,
}

impl Array {
    /// The window onto `array`; of one that is not a row-major block of aligned elements, onto a
    /// copy that is.
    pub(crate) fn new(array: &Bound<'_, PyAny>) -> PyResult<Array> {
        let Ok(given) = array.cast::<PyUntypedArray>() else {
            let name = array.get_type().name()?;
            return Err(PyTypeError::new_err(format!("expected a numpy array, given {name}")));
        };
        let dtype = element_type(&given.dtype())?;
        if given.shape().len() > MAX_RANK {
            let rank = given.shape().len();
            let text = format!("an array of {rank} dimensions is more than a tensor can have");
            return Err(PyValueError::new_err(format!("{text} ({MAX_RANK})")));
        }
        if !given.is_c_contiguous() || !given.is_aligned() {
            let options = PyDict::new(array.py());
            options.set_item("order", "C")?;
            let copy = array.call_method("copy", (), Some(&options))?;
            return Array::window(copy.cast::<PyUntypedArray>()?, dtype);
        }
        Array::window(given, dtype)
    }

    fn window(array: &Bound<'_, PyUntypedArray>, dtype: DType) -> PyResult<Array> {
        // SAFETY: the object is an array; its data pointer may be dangling only when it is empty.
        let data = unsafe { (*array.as_array_ptr()).fields.data };
        let start = NonNull::new(data.cast::<u8>()).unwrap_or(NonNull::<u128>::dangling().cast());
        // SAFETY: numpy keeps a row-major, aligned block of this type and shape there for as long
        // as the array lives, which `_memory` sees to. That Python code on another thread does not
        // write it meanwhile is up to the user, as with all of numpy.
        let tensor = unsafe { Tensor::foreign(dtype, array.shape(), start) };
        let tensor = tensor.map_err(crate::error::to_py)?;
        Ok(Array { tensor, _memory: array.clone().into_any().unbind() })
    }

    /// The tensor; good as long as this array.
    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}

/// The element type of a numpy type.
pub(crate) fn element_type(descr: &Bound<'_, PyArrayDescr>) -> PyResult<DType> {
    const SHORT: i32 = NPY_TYPES::NPY_SHORT as i32;
    let dtype = match (descr.num(), descr.itemsize()) {
        (n, _) if n == NPY_TYPES::NPY_BOOL as i32 => Some(DType::Bool),
        (n, _) if n == NPY_TYPES::NPY_BYTE as i32 => Some(DType::I8),
        (n, _) if n == NPY_TYPES::NPY_UBYTE as i32 => Some(DType::U8),
        (SHORT, _) => Some(DType::I16),
        // Paddle keeps bfloat16 in numpy's uint16.
        (n, _) if n == NPY_TYPES::NPY_USHORT as i32 => Some(DType::BF16),
        (n, _) if n == NPY_TYPES::NPY_HALF as i32 => Some(DType::F16),
        (n, _) if n == NPY_TYPES::NPY_FLOAT as i32 => Some(DType::F32),
        (n, _) if n == NPY_TYPES::NPY_DOUBLE as i32 => Some(DType::F64),
        // `int`, `long` and `long long` differ between systems in all but their sizes.
        (n, 4) if is_signed(n) => Some(DType::I32),
        (n, 8) if is_signed(n) => Some(DType::I64),
        _ => None,
    };
    match dtype.filter(|_| descr.is_native_byteorder() != Some(false)) {
        Some(dtype) => Ok(dtype),
        None => Err(PyTypeError::new_err(format!(
            "arrays of {} cannot be tensors: convert it with `astype`",
            descr.str()?
        ))),
    }
}

fn is_signed(number: i32) -> bool {
    [NPY_TYPES::NPY_INT, NPY_TYPES::NPY_LONG, NPY_TYPES::NPY_LONGLONG]
        .into_iter()
        .any(|kind| kind as i32 == number)
}

fn numpy_type(dtype: DType) -> NPY_TYPES {
    match dtype {
        DType::Bool => NPY_TYPES::NPY_BOOL,
        DType::I8 => NPY_TYPES::NPY_BYTE,
        DType::U8 => NPY_TYPES::NPY_UBYTE,
        DType::I16 => NPY_TYPES::NPY_SHORT,
        DType::I32 => NPY_TYPES::NPY_INT,
        DType::I64 if cfg!(all(unix, target_pointer_width = "64")) => NPY_TYPES::NPY_LONG,
        DType::I64 => NPY_TYPES::NPY_LONGLONG,
        DType::F16 => NPY_TYPES::NPY_HALF,
        DType::BF16 => NPY_TYPES::NPY_USHORT,
        DType::F32 => NPY_TYPES::NPY_FLOAT,
        DType::F64 => NPY_TYPES::NPY_DOUBLE,
    }
}

/// The owner of an array's memory.
#[pyclass(frozen, module = "bireme._core")]
struct TensorMemory {
    tensor: Tensor,
}

/// Whether Python may write an array's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    ReadOnly,
    Writable,
}

/// A numpy array that owns the memory of `tensor`.
pub(crate) fn into_array(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let (dtype, dims) = (tensor.dtype(), tensor.dims());
    let memory = Bound::new(py, TensorMemory { tensor })?;
    let start = memory.get().tensor.start();
    // SAFETY: `memory` owns the block, and nobody else refers to it.
    unsafe { array_over(py, dtype, &dims, start.as_ptr(), Access::Writable, memory.into_any()) }
}

/// An array of `dims` elements of `dtype` at `start`, which `memory` keeps.
///
/// # Safety
/// There is a row-major block of this type and shape at `start` for as long as `memory` lives; who
/// else refers to it can live with what `access` allows.
pub(crate) unsafe fn array_over<'py>(
    py: Python<'py>,
    dtype: DType,
    dims: &[usize],
    start: *mut u8,
    access: Access,
    memory: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut dims: Vec<npy_intp> = dims.iter().map(|dim| *dim as npy_intp).collect();
    let flags = match access {
        Access::ReadOnly => NPY_ARRAY_CARRAY_RO,
        Access::Writable => NPY_ARRAY_CARRAY,
    };
    // SAFETY: the descriptor reference is new and is taken over; the block is there by the caller's
    // promise; `memory` becomes the array's base (whose reference is taken over) and so lives as
    // long as the array.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            PY_ARRAY_API.PyArray_DescrFromType(py, numpy_type(dtype) as i32),
            dims.len() as i32,
            dims.as_mut_ptr(),
            null_mut(),
            start.cast(),
            flags,
            null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        match PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), memory.into_ptr()) {
            0 => Ok(array),
            _ => Err(PyErr::fetch(py)),
        }
    }
}
