//! Gradients of eager tensors.

use std::sync::Arc;

use bireme_engine::eager::{CustomGradient, EagerTensor, Form, HostValue};
use bireme_engine::ir::Attr;
use bireme_engine::tensor::Dims;
use bireme_engine::{DType, Error, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::{enter, to_py};
use crate::op_call::cache;
use crate::session::session;
use crate::tensor::Tensor;

type Roots = Vec<(EagerTensor, Option<EagerTensor>)>;

/// Adds the gradients of `tensors` to the leaves they depend on.
#[pyfunction]
#[pyo3(signature = (tensors, grad_tensors=None, retain_graph=false))]
pub(crate) fn backward(
    py: Python<'_>,
    tensors: Vec<PyRef<'_, Tensor>>,
    grad_tensors: Option<Vec<Option<PyRef<'_, Tensor>>>>,
    retain_graph: bool,
) -> PyResult<()> {
    let roots = roots(&tensors, grad_tensors.as_deref())?;
    enter(py, || session().backward(&roots, retain_graph))
}

/// The gradients of `outputs` with respect to `inputs`; changes no tensor's own gradient. With `create_graph` they have
/// gradients themselves.
#[pyfunction]
#[pyo3(signature = (outputs, inputs, grad_outputs=None, retain_graph=false, create_graph=false, allow_unused=false, no_grad_vars=None))]
#[expect(clippy::too_many_arguments, reason = "Paddle's arguments")]
pub(crate) fn grad(
    py: Python<'_>,
    outputs: Vec<PyRef<'_, Tensor>>,
    inputs: Vec<PyRef<'_, Tensor>>,
    grad_outputs: Option<Vec<Option<PyRef<'_, Tensor>>>>,
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
    no_grad_vars: Option<Vec<PyRef<'_, Tensor>>>,
) -> PyResult<Vec<Option<Tensor>>> {
    if no_grad_vars.is_some_and(|vars| !vars.is_empty()) {
        return Err(crate::error::unimplemented(
            "`no_grad_vars`: set `stop_gradient` on these tensors before they are used",
        ));
    }
    let roots = roots(&outputs, grad_outputs.as_deref())?;
    let wanted: Vec<EagerTensor> = inputs.iter().map(|input| input.inner.clone()).collect();
    let found = enter(py, || session().gradients(&roots, &wanted, retain_graph, create_graph))?;
    if let Some(at) = found.iter().position(Option::is_none).filter(|_| !allow_unused) {
        return Err(PyValueError::new_err(format!(
            "input {at} has no part in the outputs, or stops gradients: pass `allow_unused=True` \
             to get `None` for it"
        )));
    }
    Ok(found.into_iter().map(|grad| grad.map(|inner| Tensor { inner })).collect())
}

/// Puts a function of Python on the tape: it made `outputs` of `inputs`, and `backward`, called with the gradients of the
/// outputs, gives a list of those of the inputs. Returns the outputs with that past.
#[pyfunction]
pub(crate) fn record_custom(
    inputs: Vec<PyRef<'_, Tensor>>,
    outputs: Vec<PyRef<'_, Tensor>>,
    backward: Py<PyAny>,
) -> Vec<Tensor> {
    let inner = |tensors: &[PyRef<'_, Tensor>]| -> Vec<EagerTensor> {
        tensors.iter().map(|tensor| tensor.inner.clone()).collect()
    };
    let (inputs, outputs) = (inner(&inputs), inner(&outputs));
    let shapes = inputs.iter().map(EagerTensor::shape).collect();
    let gradient = Arc::new(PythonGradient { backward, shapes });
    let made = session().record_custom("PyLayer", &inputs, &outputs, gradient);
    made.into_iter().map(|inner| Tensor { inner }).collect()
}

/// A gradient that a function of Python computes.
struct PythonGradient {
    backward: Py<PyAny>,
    /// Types and shapes of the inputs.
    shapes: Vec<(DType, Dims)>,
}

impl CustomGradient for PythonGradient {
    fn gradients(
        &self,
        outputs: Vec<Option<EagerTensor>>,
    ) -> bireme_engine::Result<Vec<Option<EagerTensor>>> {
        let wrap = |grad: Option<EagerTensor>| grad.map(|inner| Tensor { inner });
        let given: Vec<Option<Tensor>> = outputs.into_iter().map(wrap).collect();
        let found = Python::attach(|py| {
            let result = self.backward.call1(py, (given,));
            let found = result.and_then(|result| {
                let found: Vec<Option<PyRef<'_, Tensor>>> = result.extract(py)?;
                Ok(found.iter().map(|grad| grad.as_ref().map(|g| g.inner.clone())).collect())
            });
            found.map_err(|error: PyErr| {
                let problem = format!("`backward` of a `PyLayer` failed: {error}");
                error.restore(py);
                Error::kernel(problem)
            })
        });
        let found: Vec<Option<EagerTensor>> = found?;
        for (at, (grad, shape)) in found.iter().zip(&self.shapes).enumerate() {
            if let Some(theirs) = grad.as_ref().map(EagerTensor::shape).filter(|s| s != shape) {
                return Err(Error::kernel(format!(
                    "`backward` of a `PyLayer` gave a {} of shape {} as gradient {at}, where the \
                     input is a {} of shape {}",
                    theirs.0, theirs.1, shape.0, shape.1
                )));
            }
        }
        Ok(found)
    }
}

fn roots(
    tensors: &[PyRef<'_, Tensor>],
    weights: Option<&[Option<PyRef<'_, Tensor>>]>,
) -> PyResult<Roots> {
    if let Some(weights) = weights.filter(|weights| weights.len() != tensors.len()) {
        return Err(PyValueError::new_err(format!(
            "{} tensors, but {} gradients: give one for each, or none",
            tensors.len(),
            weights.len()
        )));
    }
    let weight = |at: usize| weights?[at].as_ref().map(|weight| weight.inner.clone());
    Ok(tensors.iter().enumerate().map(|(at, root)| (root.inner.clone(), weight(at))).collect())
}

/// Lets a Python function see a gradient, and perhaps replace it.
pub(crate) fn call_hook(
    hook: &Py<PyAny>,
    grad: EagerTensor,
) -> bireme_engine::Result<Option<EagerTensor>> {
    Python::attach(|py| {
        let result = hook.call1(py, (Tensor { inner: grad },));
        let replaced = result.and_then(|result| {
            if result.is_none(py) {
                return Ok(None);
            }
            Ok(Some(result.bind(py).cast::<Tensor>()?.get().inner.clone()))
        });
        replaced.map_err(|error| {
            let problem = format!("a gradient hook failed: {error}");
            error.restore(py);
            Error::kernel(problem)
        })
    })
}

/// A value as a dense one: selected rows are added up into a full tensor.
pub(crate) fn dense(tensor: &EagerTensor) -> PyResult<HostValue> {
    let value = on_host(tensor)?;
    match value.rows() {
        None => Ok(value),
        Some(rows) => Ok(Value::from(rows.to_dense().map_err(to_py)?).into()),
    }
}

/// The value of a tensor on the host; other Python threads run while a card is waited for.
pub(crate) fn on_host(tensor: &EagerTensor) -> PyResult<HostValue> {
    let held = tensor.held();
    if held.is_on_host() {
        return HostValue::of(held).map_err(to_py);
    }
    Python::attach(|py| enter(py, || HostValue::of(held)))
}

/// A dense value that numpy can compute with: bfloat16, which it does not know, as float32.
pub(crate) fn numbers(tensor: &EagerTensor) -> PyResult<HostValue> {
    if tensor.dtype() == DType::BF16 {
        return on_host(&converted(&tensor.detach(), DType::F32)?);
    }
    dense(tensor)
}

/// The elements of a tensor in another type.
pub(crate) fn converted(tensor: &EagerTensor, dtype: DType) -> PyResult<EagerTensor> {
    let attrs =
        [("in_dtype", Attr::Int(tensor.dtype().code())), ("out_dtype", Attr::Int(dtype.code()))];
    let form = Form { attrs: &attrs, inputs: &[1], outputs: &[1] };
    let made = session().apply(cache("cast"), form, std::slice::from_ref(tensor));
    Ok(made.map_err(to_py)?.swap_remove(0))
}
