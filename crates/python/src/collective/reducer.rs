//! `GradReducer`: averages the gradients of a model while a backward pass goes on.

use std::sync::Arc;

use bireme_engine::eager::EagerTensor;
use bireme_fleet::eager::{Limits, Parameter, Reducer, tensors};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::ProcessGroup;
use crate::error::enter;
use crate::session::session;
use crate::tensor::Tensor;

/// Averages the gradients of parameters over the processes of a group.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct GradReducer {
    reducer: Arc<Reducer>,
}

#[pymethods]
impl GradReducer {
    /// For `parameters`, of which `sparse` says whose gradients are rows; sizes are in bytes.
    #[new]
    #[pyo3(signature = (group, parameters, sparse, bucket_bytes, first_bytes, find_unused=false))]
    fn new(
        py: Python<'_>,
        group: PyRef<'_, ProcessGroup>,
        parameters: Vec<PyRef<'_, Tensor>>,
        sparse: Vec<bool>,
        bucket_bytes: usize,
        first_bytes: usize,
        find_unused: bool,
    ) -> PyResult<GradReducer> {
        if sparse.len() != parameters.len() {
            return Err(PyValueError::new_err("say of each parameter whether it is sparse"));
        }
        let cards = match parameters.first() {
            Some(first) => group.on_cards(py, &first.inner)?,
            None => None,
        };
        let parameters = parameters
            .iter()
            .zip(sparse)
            .map(|(tensor, is_sparse)| Parameter { tensor: tensor.inner.clone(), is_sparse })
            .collect();
        let limits = Limits { bucket: bucket_bytes, first: first_bytes, ..Limits::default() };
        let group = group.group.clone();
        let reducer = Reducer::new(session(), group, parameters, limits, find_unused, cards);
        Ok(GradReducer { reducer })
    }

    /// Says whether backward passes are averaged from now on.
    fn arm(&self, armed: bool) {
        self.reducer.arm(armed);
    }

    /// How many buckets of gradients there are.
    #[getter]
    fn bucket_count(&self) -> usize {
        self.reducer.bucket_count()
    }

    /// Lets go of the parameters: their gradients are their own again.
    fn release(&self) {
        self.reducer.release(session());
    }
}

/// Divides the gradients of parameters, of those that have one.
#[pyfunction]
pub(crate) fn divide_gradients(
    py: Python<'_>,
    parameters: Vec<PyRef<'_, Tensor>>,
    by: usize,
) -> PyResult<()> {
    let parameters: Vec<EagerTensor> = parameters.iter().map(|p| p.inner.clone()).collect();
    enter(py, || tensors::divide_gradients(&parameters, by))
}
