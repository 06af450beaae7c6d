//! DLPack: tensors handed to other libraries and taken from them, without copies.
//!
//! Memory lives as long as either side holds it. On a card, whoever reads waits for whoever wrote: the reader's stream
//! for an event of the writer's where the streams are known, the host for the card where they are not.

#![expect(unsafe_code, reason = "DLPack is a C interface")]

use std::ffi::{CStr, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use bireme_engine::device::{Address, Device, DeviceTensor, DeviceValue, Region};
use bireme_engine::eager::{EagerCard, EagerTensor, Held};
use bireme_engine::tensor::{Dims, MAX_RANK, Tensor as EngineTensor};
use bireme_engine::{DType, Place};
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::card;
use crate::error::{enter, to_py};
use crate::session::session;
use crate::tensor::Tensor;

/// What a capsule is called before somebody takes what it holds, and afterwards.
const FRESH: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";

/// DLPack's numbers of devices.
const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
struct DLDevice {
    kind: i32,
    number: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct DLDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: DLDevice,
    ndim: i32,
    dtype: DLDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DLManagedTensor {
    tensor: DLTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// What another library holds of ours.
struct Lent {
    managed: DLManagedTensor,
    shape: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    held: Option<Arc<Held>>,
    /// The card, and the stream on which the other library uses the memory, if it said so.
    card: Option<(Arc<EagerCard>, Option<u64>)>,
}

impl Drop for Lent {
    /// The memory may be used for something else as soon as it is back: not before the other library is done with it.
    fn drop(&mut self) {
        if let Some((card, stream)) = &self.card {
            let _ = card.device().take_over(*stream);
        }
        self.held.take();
    }
}

/// Called by the other library when it needs the memory no more, on whichever thread.
unsafe extern "C" fn give_back(managed: *mut DLManagedTensor) {
    if managed.is_null() {
        return;
    }
    // SAFETY: it is the one that `capsule` made, and it is called once.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Lent>()) });
}

/// Called for a capsule that nobody has taken anything from.
unsafe extern "C" fn forget(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this for a capsule of ours, with the interpreter held; one that was used is left alone.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, FRESH.as_ptr()) == 1 {
            let managed = ffi::PyCapsule_GetPointer(capsule, FRESH.as_ptr());
            give_back(managed.cast());
        }
    }
}

/// Device and number, as DLPack counts them.
pub(crate) fn device_of(tensor: &Tensor) -> (i32, i32) {
    let held = tensor.inner.held();
    match held.place() {
        Place::Cuda(number) => (CUDA, number as i32),
        Place::Cpu if held.is_page_locked() => (CUDA_HOST, 0),
        Place::Cpu => (CPU, 0),
    }
}

/// A capsule with the memory of a tensor, for a consumer that works on `stream`: -1 when it wants no order at all.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    stream: Option<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    let held = tensor.inner.held();
    if held.is_rows() {
        return Err(PyBufferError::new_err("selected rows are no array: use `to_dense`"));
    }
    let (kind, number) = device_of(tensor);
    let stream = match (kind, stream) {
        (CUDA, Some(0)) => {
            return Err(PyValueError::new_err("stream 0 is ambiguous: 1 is the default stream"));
        }
        (CUDA, stream) => stream,
        (_, None | Some(-1)) => None,
        _ => return Err(PyValueError::new_err("a tensor of the host has no stream")),
    };
    let (data, card) = match held.home() {
        Some(card) => {
            let value = held.card(card).map_err(to_py)?;
            let DeviceValue::Tensor(on_card) = value else {
                return Err(PyBufferError::new_err("selected rows are no array"));
            };
            let address = on_card.address().0;
            let known = stream.and_then(|stream| u64::try_from(stream).ok());
            if stream != Some(-1) {
                enter(py, || card.device().hand_over(known))?;
            }
            (address as *mut c_void, Some((Arc::clone(card), known)))
        }
        None => {
            let host = held.host().map_err(to_py)?.tensor().map_err(to_py)?;
            (host.start().as_ptr().cast(), None)
        }
    };
    let (dtype, dims) = held.shape();
    let device = DLDevice { kind, number };
    lend(py, held, card, data, device, dtype, dims)
}

fn lend(
    py: Python<'_>,
    held: Arc<Held>,
    card: Option<(Arc<EagerCard>, Option<u64>)>,
    data: *mut c_void,
    device: DLDevice,
    dtype: DType,
    dims: Dims,
) -> PyResult<Bound<'_, PyAny>> {
    let (mut shape, mut strides) = ([0; MAX_RANK], [0; MAX_RANK]);
    for (at, (dim, step)) in dims.iter().zip(&*dims.strides()).enumerate() {
        (shape[at], strides[at]) = (*dim as i64, *step as i64);
    }
    let dtype = code_of(dtype);
    let tensor = DLTensor {
        data,
        device,
        ndim: dims.len() as i32,
        dtype,
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let managed =
        DLManagedTensor { tensor, context: std::ptr::null_mut(), deleter: Some(give_back) };
    let lent = Box::into_raw(Box::new(Lent { managed, shape, strides, held: Some(held), card }));
    // SAFETY: the box was made above and is nobody else's; its fields stay where they are until `give_back`.
    unsafe {
        (*lent).managed.context = lent.cast();
        (*lent).managed.tensor.shape = (&raw mut (*lent).shape).cast();
        (*lent).managed.tensor.strides = (&raw mut (*lent).strides).cast();
        let managed: *mut DLManagedTensor = &raw mut (*lent).managed;
        let capsule = ffi::PyCapsule_New(managed.cast(), FRESH.as_ptr(), Some(forget));
        if capsule.is_null() {
            give_back(managed);
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// What another library has lent us; it goes back when it is dropped.
struct Borrowed(NonNull<DLManagedTensor>);

// SAFETY: DLPack's deleters may be called on any thread, and nothing else is done with it.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    fn tensor(&self) -> &DLTensor {
        // SAFETY: it lives until the deleter is called.
        unsafe { &self.0.as_ref().tensor }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: this is the only call of the deleter.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}

/// Memory of a card that belongs to another library.
struct Foreign {
    at: Address,
    bytes: usize,
    device: Arc<dyn Device>,
    /// Given back after our own work with it is done.
    _borrowed: Borrowed,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.device.synchronize();
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of another library on {:?}", self.bytes, self.device)
    }
}

impl Region for Foreign {
    fn address(&self) -> Address {
        self.at
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }
}

/// A tensor in the memory of what has `__dlpack__`, or of a capsule.
#[pyfunction]
pub(crate) fn from_dlpack(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    if value.is_instance_of::<PyCapsule>() {
        return taken(py, value, false);
    }
    if !value.hasattr("__dlpack__")? {
        let kind = value.get_type().name()?.to_string();
        return Err(PyTypeError::new_err(format!(
            "`from_dlpack` takes a capsule or what has `__dlpack__`, not {kind}"
        )));
    }
    let options = PyDict::new(py);
    let mut is_ordered = false;
    if value.hasattr("__dlpack_device__")? {
        let (kind, number): (i32, i32) = value.call_method0("__dlpack_device__")?.extract()?;
        if kind == CUDA {
            options.set_item("stream", card::open(card_number(number)?)?.queue())?;
            is_ordered = true;
        }
    }
    let capsule = value.call_method("__dlpack__", (), Some(&options))?;
    taken(py, &capsule, is_ordered)
}

fn card_number(number: i32) -> PyResult<u32> {
    u32::try_from(number)
        .map_err(|_| PyValueError::new_err(format!("there is no GPU with the number {number}")))
}

/// Takes what a capsule holds; `is_ordered` when our stream waits for its producer's already.
fn taken(py: Python<'_>, capsule: &Bound<'_, PyAny>, is_ordered: bool) -> PyResult<Tensor> {
    // SAFETY: the object lives, and Python says whether it is such a capsule.
    let managed = unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), FRESH.as_ptr()) != 1 {
            return Err(PyValueError::new_err(
                "this is no DLPack capsule, or one that has been used: each can be taken once",
            ));
        }
        ffi::PyCapsule_GetPointer(capsule.as_ptr(), FRESH.as_ptr()).cast::<DLManagedTensor>()
    };
    let managed = NonNull::new(managed).ok_or_else(|| PyErr::fetch(py))?;
    // SAFETY: as above; it is ours from now on, as its new name says, which is a constant.
    unsafe {
        if ffi::PyCapsule_SetName(capsule.as_ptr(), USED.as_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
    }
    let borrowed = Borrowed(managed);
    let form = Form::of(borrowed.tensor())?;
    let held = match form.device.kind {
        CPU | CUDA_HOST => form.on_host(borrowed)?,
        CUDA => form.on_card(py, borrowed, is_ordered)?,
        kind => {
            return Err(PyBufferError::new_err(format!(
                "memory of DLPack's device type {kind} cannot be used: only of CPUs (1) and NVIDIA GPUs (2)"
            )));
        }
    };
    Ok(Tensor { inner: EagerTensor::from_held(held) })
}

/// What is known of a tensor of another library.
struct Form {
    data: *mut u8,
    device: DLDevice,
    dtype: DType,
    dims: Dims,
    /// Elements from one to the next along each axis; none when they lie one after the other.
    steps: Option<Vec<i64>>,
}

impl Form {
    fn of(tensor: &DLTensor) -> PyResult<Form> {
        let rank = usize::try_from(tensor.ndim).ok().filter(|rank| *rank <= MAX_RANK);
        let rank = rank.ok_or_else(|| {
            PyBufferError::new_err(format!(
                "an array of {} dimensions is no tensor: {MAX_RANK} is the most",
                tensor.ndim
            ))
        })?;
        let dtype = dtype_of(tensor.dtype)?;
        let numbers = |at: *mut i64| -> &[i64] {
            if at.is_null() || rank == 0 {
                return &[];
            }
            // SAFETY: DLPack has as many numbers there as dimensions.
            unsafe { std::slice::from_raw_parts(at, rank) }
        };
        let dims: Result<Vec<usize>, _> =
            numbers(tensor.shape).iter().map(|dim| usize::try_from(*dim)).collect();
        let dims = dims.map_err(|_| PyBufferError::new_err("a dimension is negative"))?;
        let dims = Dims::new(&dims);
        if dims.bytes(dtype).is_none() {
            return Err(PyBufferError::new_err(format!("no tensor has the shape {dims}")));
        }
        let steps = numbers(tensor.strides);
        let plain = dims.strides();
        let is_plain = steps.is_empty()
            || dims.contains(&0)
            || steps
                .iter()
                .zip(&*plain)
                .zip(&*dims)
                .all(|((a, b), dim)| *dim == 1 || *a == *b as i64);
        let steps = (!is_plain).then(|| steps.to_vec());
        let data = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
        Ok(Form { data, device: tensor.device, dtype, dims, steps })
    }

    fn on_host(&self, borrowed: Borrowed) -> PyResult<Held> {
        let start = NonNull::new(self.data).filter(|_| self.dims.numel() > 0);
        let Some(start) = start else {
            return Ok(Held::new(EngineTensor::zeros(self.dtype, self.dims)));
        };
        let is_aligned = start.align_offset(self.dtype.size()) == 0;
        if let (None, true) = (&self.steps, is_aligned) {
            // SAFETY: the producer vouches for the memory, which is held with the tensor and not written by us: who
            // changes a tensor whose memory is somebody else's makes another.
            let tensor = unsafe { EngineTensor::foreign(self.dtype, self.dims, start) };
            return Ok(Held::kept(tensor.map_err(to_py)?, Box::new(borrowed)));
        }
        Ok(Held::new(self.gathered()))
    }

    /// A copy of elements that do not lie one after the other.
    fn gathered(&self) -> EngineTensor {
        let mut made = EngineTensor::zeros(self.dtype, self.dims);
        let (size, plain) = (self.dtype.size(), self.dims.strides());
        let steps: Vec<i64> = match &self.steps {
            Some(steps) => steps.clone(),
            None => plain.iter().map(|step| *step as i64).collect(),
        };
        for (at, to) in made.as_mut_bytes().chunks_exact_mut(size).enumerate() {
            let along = |axis: usize| (at / plain[axis] % self.dims[axis]) as i64 * steps[axis];
            let from: i64 = (0..steps.len()).map(along).sum();
            let from = self.data.wrapping_offset(from as isize * size as isize);
            // SAFETY: the element lies in the producer's memory, by its strides; bytes need no alignment.
            unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), size) };
        }
        made
    }

    fn on_card(&self, py: Python<'_>, borrowed: Borrowed, is_ordered: bool) -> PyResult<Held> {
        if self.steps.is_some() {
            return Err(PyBufferError::new_err(
                "elements on a GPU must lie one after the other: call `.contiguous()` first",
            ));
        }
        let device = card::open(card_number(self.device.number)?)?;
        let card = session().card(&device).map_err(to_py)?;
        if !is_ordered {
            enter(py, || device.take_over(None))?;
        }
        let bytes = self.dims.numel() * self.dtype.size();
        let at = Address(self.data as u64);
        let region: Arc<dyn Region> = Arc::new(Foreign { at, bytes, device, _borrowed: borrowed });
        let tensor = DeviceTensor::window(self.dtype, self.dims, &region, 0);
        Ok(Held::on_card(&card, DeviceValue::Tensor(tensor)))
    }
}

/// Codes of element types: whole numbers 0, without sign 1, floats 2, bfloat16 4, truth 6.
const TYPES: [(DType, u8, u8); 10] = [
    (DType::I8, 0, 8),
    (DType::I16, 0, 16),
    (DType::I32, 0, 32),
    (DType::I64, 0, 64),
    (DType::U8, 1, 8),
    (DType::F16, 2, 16),
    (DType::F32, 2, 32),
    (DType::F64, 2, 64),
    (DType::BF16, 4, 16),
    (DType::Bool, 6, 8),
];

fn code_of(dtype: DType) -> DLDataType {
    let found = TYPES.iter().find(|(known, _, _)| *known == dtype);
    let (code, bits) = found.map_or((2, 32), |(_, code, bits)| (*code, *bits));
    DLDataType { code, bits, lanes: 1 }
}

fn dtype_of(code: DLDataType) -> PyResult<DType> {
    let is_it = |(_, known, bits): &&(DType, u8, u8)| {
        DLDataType { code: *known, bits: *bits, lanes: 1 } == code
    };
    TYPES.iter().find(is_it).map(|(dtype, _, _)| *dtype).ok_or_else(|| {
        PyBufferError::new_err(format!(
            "elements of DLPack's type {} with {} bits and {} lanes are in no tensor",
            code.code, code.bits, code.lanes
        ))
    })
}
