//! `Tensor`: a tensor of eager mode. Named methods (`reshape`, `sum`, ...) are attached in Python.

use std::sync::Arc;

use bireme_engine::eager::{EagerTensor, Held};
use bireme_engine::tensor::Tensor as EngineTensor;
use bireme_engine::{DType, Error};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyBufferError, PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array;
use crate::autograd;
use crate::context;
use crate::convert::dtype_of;
use crate::dlpack;
use crate::dtype;
use crate::error::{enter, to_py};
use crate::home::{Home, place_object};
use crate::operators::{Binary, Unary, binary, compare, unary};
use crate::session::{float_type, session};

/// A tensor that ops run on at once.
///
/// >>> x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
/// >>> (x * x).sum().backward()
/// >>> x.grad.tolist()
/// [2.0, 4.0]
#[pyclass(frozen, dict, weakref, subclass, module = "bireme._core")]
pub(crate) struct Tensor {
    pub(crate) inner: EagerTensor,
}

impl Tensor {
    pub(crate) fn wrap(py: Python<'_>, inner: EagerTensor) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Tensor { inner })?.into_any())
    }

    /// Its name, made up when first asked for.
    pub(crate) fn name_of(&self, py: Python<'_>) -> PyResult<String> {
        if let Some(name) = self.inner.name() {
            return Ok(name);
        }
        let name = context::unique_name(py, "generated_tensor")?;
        self.inner.set_name(name.clone());
        Ok(name)
    }

    fn one_element(&self, as_what: &str) -> PyResult<()> {
        let dims = self.inner.dims();
        if dims.numel() == 1 && !self.inner.is_rows() {
            return Ok(());
        }
        Err(PyTypeError::new_err(format!(
            "only a tensor of one element can be {as_what}; this one has shape {dims}"
        )))
    }
}

/// The value of anything that stands for a tensor: a tensor, an array, numbers. It is put to `home`; without one a
/// tensor's stays where it is, and others are put where new tensors belong.
pub(crate) fn value_from(
    value: &Bound<'_, PyAny>,
    dtype: Option<DType>,
    home: Option<&Home>,
) -> PyResult<Arc<Held>> {
    if let Ok(tensor) = value.cast::<Tensor>() {
        let inner = &tensor.get().inner;
        let held = match dtype.filter(|dtype| *dtype != inner.dtype()) {
            None => inner.held(),
            // The engine converts, not numpy, which does not know bfloat16.
            Some(dtype) => autograd::converted(&inner.detach(), dtype)?.held(),
        };
        return home.map_or(Ok(Arc::clone(&held)), |home| home.bring(&held));
    }
    let made = array::tensor_from(value, dtype, float_type())?;
    let held = match home {
        Some(home) => home.hold(made),
        None => Home::current()?.hold(made),
    };
    held.map(Arc::new)
}

pub(crate) fn optional_dtype(dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    dtype.map(dtype_of).transpose()
}

/// A new tensor with a copy of `value`, at `place`; without one where `value` is, if it is a tensor, or on the current
/// device.
#[pyfunction]
#[pyo3(signature = (value, dtype=None, stop_gradient=true, place=None))]
pub(crate) fn to_tensor(
    value: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    stop_gradient: bool,
    place: Option<&Bound<'_, PyAny>>,
) -> PyResult<Tensor> {
    let home = place.map(|place| Home::named(Some(place))).transpose()?;
    let inner = EagerTensor::from_held(value_from(value, optional_dtype(dtype)?, home.as_ref())?);
    inner.set_stop_gradient(stop_gradient);
    Ok(Tensor { inner })
}

#[pymethods]
impl Tensor {
    #[new]
    #[pyo3(signature = (value=None, dtype=None, stop_gradient=true, name=None, persistable=false))]
    fn new(
        value: Option<&Bound<'_, PyAny>>,
        dtype: Option<&Bound<'_, PyAny>>,
        stop_gradient: bool,
        name: Option<String>,
        persistable: bool,
    ) -> PyResult<Tensor> {
        let dtype = optional_dtype(dtype)?;
        let inner = match value {
            Some(value) => EagerTensor::from_held(value_from(value, dtype, None)?),
            None => {
                let empty = EngineTensor::empty(dtype.unwrap_or_else(float_type));
                EagerTensor::from_held(Home::current()?.hold(empty)?)
            }
        };
        inner.set_stop_gradient(stop_gradient);
        if let Some(name) = name {
            inner.set_name(name);
        }
        if persistable {
            inner.set_persistable(true);
        }
        Ok(Tensor { inner })
    }

    /// The dimensions.
    #[getter]
    fn shape(&self) -> Vec<usize> {
        self.inner.dims().to_vec()
    }

    /// The element type.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<dtype::DType>> {
        dtype::object(py, self.inner.dtype())
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.inner.dims().len()
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.inner.dims().numel()
    }

    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        self.name_of(py)
    }

    #[setter]
    fn set_name(&self, name: String) {
        self.inner.set_name(name);
    }

    /// Whether gradients stop here.
    #[getter]
    fn stop_gradient(&self) -> bool {
        self.inner.stop_gradient()
    }

    #[setter]
    fn set_stop_gradient(&self, stop: bool) {
        self.inner.set_stop_gradient(stop);
    }

    /// Whether a model keeps it.
    #[getter]
    fn persistable(&self) -> bool {
        self.inner.persistable()
    }

    #[setter]
    fn set_persistable(&self, persistable: bool) {
        self.inner.set_persistable(persistable);
    }

    /// The gradient that backward passes have added up, or `None`.
    #[getter]
    fn grad(&self) -> Option<Tensor> {
        self.inner.grad().map(|inner| Tensor { inner })
    }

    #[setter]
    fn set_grad(&self, grad: Option<PyRef<'_, Tensor>>) -> PyResult<()> {
        if let Some(grad) = &grad {
            let (mine, given) = (&self.inner, &grad.inner);
            if (mine.dtype(), mine.dims()) != (given.dtype(), given.dims()) {
                return Err(PyValueError::new_err(format!(
                    "the gradient of a {} tensor of shape {} cannot be {} of shape {}",
                    mine.dtype(),
                    mine.dims(),
                    given.dtype(),
                    given.dims()
                )));
            }
        }
        self.inner.set_grad(grad.map(|grad| grad.inner.clone()));
        Ok(())
    }

    /// Whether no op computed it.
    #[getter]
    fn is_leaf(&self) -> bool {
        self.inner.is_leaf()
    }

    /// Whether it holds some rows of a taller tensor, as the gradient of an embedding does.
    fn is_selected_rows(&self) -> bool {
        self.inner.is_rows()
    }

    /// The rows that selected rows hold.
    fn rows(&self) -> PyResult<Vec<i64>> {
        let value = autograd::on_host(&self.inner)?;
        let rows = value.rows().map(|rows| rows.rows.clone());
        rows.ok_or_else(|| PyTypeError::new_err("a dense tensor has no list of rows"))
    }

    /// The values of the rows that selected rows hold, as an array.
    fn rows_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = autograd::on_host(&self.inner)?;
        let values = value.rows().map(|rows| rows.value.clone());
        let values = values.ok_or_else(|| PyTypeError::new_err("a dense tensor has no rows"))?;
        crate::window::into_array(py, values)
    }

    /// Offsets of sequences, level by level.
    fn lod(&self) -> PyResult<Vec<Vec<usize>>> {
        let value = autograd::on_host(&self.inner)?;
        Ok(value.tensor().map(|tensor| tensor.lod().clone()).unwrap_or_default())
    }

    /// Where it belongs.
    #[getter]
    fn place(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        place_object(py, &self.inner.held())
    }

    /// Whether a look at its elements waits for no card.
    fn _is_on_host(&self) -> bool {
        self.inner.held().is_on_host()
    }

    /// A leaf with the same values at `place`. With `blocking`, nothing is on its way when this returns.
    #[pyo3(signature = (place, blocking=true))]
    fn _copy_to(
        &self,
        py: Python<'_>,
        place: &Bound<'_, PyAny>,
        blocking: bool,
    ) -> PyResult<Tensor> {
        let home = Home::named(Some(place))?;
        let held = home.bring(&self.inner.held())?;
        if let (true, Some(card)) = (blocking, home.card()) {
            enter(py, || card.device().synchronize())?;
        }
        let inner = EagerTensor::from_held(held);
        inner.set_stop_gradient(self.inner.stop_gradient());
        if self.inner.persistable() {
            inner.set_persistable(true);
        }
        Ok(Tensor { inner })
    }

    /// Puts its values to `place`; it stays the tensor that it is. So its gradient.
    fn _move_to(&self, place: &Bound<'_, PyAny>) -> PyResult<()> {
        let home = Home::named(Some(place))?;
        self.inner.replace_value(home.bring(&self.inner.held())?);
        if let Some(grad) = self.inner.known_grad() {
            grad.replace_value(home.bring(&grad.held())?);
        }
        Ok(())
    }

    /// A copy as a numpy array.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array::copied(py, &*autograd::dense(&self.inner)?)
    }

    /// The gradient as a numpy array, or `None`.
    fn gradient<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.inner.grad().map(|grad| array::copied(py, &*autograd::dense(&grad)?)).transpose()
    }

    /// A view for numpy: no copy, and not writable.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = autograd::dense(&self.inner)?;
        let array =
            if copy == Some(true) { array::copied(py, &value)? } else { array::view(py, value)? };
        match dtype {
            None => Ok(array),
            Some(dtype) => {
                let options = PyDict::new(py);
                options.set_item("copy", false)?;
                array.call_method("astype", (dtype,), Some(&options))
            }
        }
    }

    /// The only element, or the one at `index`, as a Python number.
    #[pyo3(signature = (*index))]
    fn item<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if index.is_empty() {
            self.one_element("a Python number")?;
        }
        array::view(py, autograd::numbers(&self.inner)?)?.call_method1("item", index)
    }

    /// The elements as nested lists.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        array::view(py, autograd::numbers(&self.inner)?)?.call_method0("tolist")
    }

    /// Adds the gradients of this tensor to the leaves it depends on.
    #[pyo3(signature = (grad_tensor=None, retain_graph=false))]
    fn backward(
        &self,
        py: Python<'_>,
        grad_tensor: Option<PyRef<'_, Tensor>>,
        retain_graph: bool,
    ) -> PyResult<()> {
        let root = (self.inner.clone(), grad_tensor.map(|grad| grad.inner.clone()));
        enter(py, || session().backward(&[root], retain_graph))
    }

    /// Makes the gradient zero, or forgets it.
    #[pyo3(signature = (set_to_zero=true))]
    fn clear_gradient(&self, set_to_zero: bool) {
        if set_to_zero { self.inner.zero_grad() } else { self.inner.set_grad(None) }
    }

    /// Makes the gradient zero.
    fn clear_grad(&self) {
        self.inner.zero_grad();
    }

    /// Keeps the gradient of this tensor although an op computed it.
    fn retain_grads(&self) {
        self.inner.retain_grad();
    }

    /// The same values without a past.
    fn detach(&self) -> Tensor {
        Tensor { inner: self.inner.detach() }
    }

    /// Takes over the values of an array or tensor of the same shape.
    fn set_value(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let home = Home::of_held(&self.inner.held());
        let value = value_from(value, Some(self.inner.dtype()), Some(&home))?;
        if value.is_rows() {
            return Err(to_py(Error::NotDense));
        }
        let (mine, given) = (self.inner.dims(), value.shape().1);
        if mine != given {
            return Err(PyValueError::new_err(format!(
                "a tensor of shape {mine} cannot take values of shape {given}"
            )));
        }
        self.inner.set_value(value);
        Ok(())
    }

    /// Becomes what `other` is: its values and its past.
    fn _share(&self, other: PyRef<'_, Tensor>) -> PyResult<()> {
        self.inner.take_over(&other.inner).map_err(to_py)
    }

    /// Calls `hook` with each gradient of this tensor; returns a number for `_remove_hook`.
    fn _register_hook(&self, hook: Py<PyAny>) -> u64 {
        self.inner.add_hook(Arc::new(move |grad| autograd::call_hook(&hook, grad)))
    }

    fn _remove_hook(&self, number: u64) -> bool {
        self.inner.remove_hook(number)
    }

    /// Its memory for another library, which works on `stream`.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // A consumer that knows newer versions takes the first one, too.
        let _ = max_version;
        if dl_device.is_some_and(|wanted| wanted != dlpack::device_of(self)) {
            let text = "move the tensor first: `.cpu()` or `.cuda()`";
            return Err(PyBufferError::new_err(text));
        }
        if copy == Some(true) {
            let held = self.inner.held().copy().map_err(to_py)?;
            return dlpack::capsule(py, &Tensor { inner: EagerTensor::from_held(held) }, stream);
        }
        dlpack::capsule(py, self, stream)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::device_of(self)
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.inner.dims().first().copied();
        first.ok_or_else(|| PyTypeError::new_err("a tensor of rank 0 has no length"))
    }

    /// What is above zero is true, as in Paddle: neither negative numbers nor NaN are.
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.one_element("true or false")?;
        self.item(py, &PyTuple::empty(py))?.gt(0)
    }

    /// A tensor of one element takes the format of a number; Paddle refuses every format.
    fn __format__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
        spec: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        if spec.is_empty() {
            return Ok(slf.str()?.into_any());
        }
        let this = slf.get();
        this.one_element("formatted as a number")?;
        this.item(py, &PyTuple::empty(py))?.call_method1("__format__", (spec,))
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.one_element("an integer")?;
        self.item(py, &PyTuple::empty(py))?.call_method0("__int__")
    }

    fn __index__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.inner.dtype().is_float() {
            return Err(PyIndexError::new_err("only a tensor of integers can be an index"));
        }
        self.__int__(py)
    }

    fn __float__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.one_element("a float")?;
        self.item(py, &PyTuple::empty(py))?.call_method0("__float__")
    }

    fn __hash__(&self) -> isize {
        self.inner.id() as isize
    }

    fn __richcmp__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        compare(op, slf.as_any(), other)
    }

    fn __add__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Add, slf.as_any(), other, false)
    }

    fn __radd__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Add, slf.as_any(), other, true)
    }

    fn __sub__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Sub, slf.as_any(), other, false)
    }

    fn __rsub__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Sub, slf.as_any(), other, true)
    }

    fn __mul__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Mul, slf.as_any(), other, false)
    }

    fn __rmul__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Mul, slf.as_any(), other, true)
    }

    fn __truediv__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Div, slf.as_any(), other, false)
    }

    fn __rtruediv__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Div, slf.as_any(), other, true)
    }

    fn __floordiv__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::FloorDiv, slf.as_any(), other, false)
    }

    fn __rfloordiv__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::FloorDiv, slf.as_any(), other, true)
    }

    fn __mod__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Mod, slf.as_any(), other, false)
    }

    fn __rmod__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Mod, slf.as_any(), other, true)
    }

    fn __pow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        modulo: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        no_modulo(modulo)?;
        binary(Binary::Pow, slf.as_any(), other, false)
    }

    fn __rpow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        modulo: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        no_modulo(modulo)?;
        binary(Binary::Pow, slf.as_any(), other, true)
    }

    fn __matmul__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::MatMul, slf.as_any(), other, false)
    }

    fn __rmatmul__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::MatMul, slf.as_any(), other, true)
    }

    fn __and__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::And, slf.as_any(), other, false)
    }

    fn __or__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Or, slf.as_any(), other, false)
    }

    fn __xor__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        binary(Binary::Xor, slf.as_any(), other, false)
    }

    fn __invert__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        unary(Unary::Not, slf.as_any())
    }

    fn __neg__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        unary(Unary::Neg, slf.as_any())
    }

    fn __abs__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        unary(Unary::Abs, slf.as_any())
    }

    fn __pos__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }
}

fn no_modulo(modulo: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match modulo {
        None => Ok(()),
        Some(_) => Err(PyTypeError::new_err("a power of tensors takes no modulus")),
    }
}
