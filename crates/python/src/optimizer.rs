//! `Optimizer`: an optimizer of the engine, for static programs and for eager tensors.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::backward::Pairs;
use crate::operator::Operator;
use crate::optimizer_config::{Chosen, optimizer_of};
use crate::program::Program;
use crate::static_optimizer;
use crate::variable::Variable;

/// Makes a loss smaller.
#[pyclass(frozen, dict, weakref, subclass, module = "bireme._core")]
pub(crate) struct Optimizer {
    /// `adam`, `sgd`, ...
    #[pyo3(get)]
    pub(crate) kind: String,
    /// Its settings, checked when it is made.
    pub(crate) config: Py<PyDict>,
    /// The variable of the learning rate in the program that was last given updates.
    pub(crate) learning_rate: Mutex<Option<String>>,
}

#[pymethods]
impl Optimizer {
    #[new]
    fn new(kind: String, config: &Bound<'_, PyDict>) -> PyResult<Optimizer> {
        optimizer_of(&kind, config, Chosen::default())?;
        let config = config.copy()?.unbind();
        Ok(Optimizer { kind, config, learning_rate: Mutex::new(None) })
    }

    /// Appends gradients and updates of `loss`; returns the update ops and the parameters with the
    /// gradients that they read.
    #[pyo3(signature = (loss, parameter_list=None, no_grad_set=None, startup_program=None))]
    fn minimize(
        &self,
        py: Python<'_>,
        loss: &Bound<'_, Variable>,
        parameter_list: Option<&Bound<'_, PyAny>>,
        no_grad_set: Option<&Bound<'_, PyAny>>,
        startup_program: Option<&Bound<'_, Program>>,
    ) -> PyResult<(Vec<Operator>, Pairs)> {
        let chosen = static_optimizer::chosen(loss, parameter_list, no_grad_set)?;
        static_optimizer::minimize(py, self, loss, chosen, startup_program)
    }

    /// Appends the gradients of `loss`; returns each parameter with its gradient.
    #[pyo3(signature = (loss, parameter_list=None, no_grad_set=None))]
    fn backward(
        &self,
        py: Python<'_>,
        loss: &Bound<'_, Variable>,
        parameter_list: Option<&Bound<'_, PyAny>>,
        no_grad_set: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pairs> {
        crate::backward::append_backward(py, loss, parameter_list, no_grad_set)
    }

    /// Appends clipping, regularisation and updates for given gradients; returns the update ops.
    #[pyo3(signature = (params_grads, startup_program=None))]
    fn apply_gradients(
        &self,
        py: Python<'_>,
        params_grads: Vec<(Bound<'_, Variable>, Option<Bound<'_, Variable>>)>,
        startup_program: Option<&Bound<'_, Program>>,
    ) -> PyResult<Vec<Operator>> {
        static_optimizer::apply_gradients(py, self, params_grads, startup_program)
    }

    /// The variable that holds the learning rate; `None` before updates have been appended.
    #[getter]
    fn learning_rate_name(&self) -> Option<String> {
        self.learning_rate.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
