//! `Optimizer`: an optimizer of the engine, for static programs and for eager tensors.

use std::sync::{Arc, Mutex, PoisonError};

use bireme_engine::eager::{EagerOptimizer, EagerTensor, Held};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::amp::amp_of;
use crate::backward::Pairs;
use crate::error::enter_held;
use crate::jobs;
use crate::operator::Operator;
use crate::optimizer_config::{Chosen, optimizer_of};
use crate::program::Program;
use crate::static_optimizer;
use crate::tensor::{Tensor, value_from};
use crate::variable::Variable;

/// Makes a loss smaller.
#[pyclass(frozen, dict, weakref, subclass, module = "bireme._core")]
pub(crate) struct Optimizer {
    /// `adam`, `sgd`, ...
    #[pyo3(get)]
    pub(crate) kind: String,
    /// Its settings, checked when it is made.
    pub(crate) config: Py<PyDict>,
    /// The program that was last given updates, and its variable of the learning rate.
    pub(crate) learning_rate: Mutex<Option<(u64, String)>>,
    /// With mixed precision: the scaled loss of the program that was last differentiated, and its factor.
    pub(crate) scaled: Mutex<Option<(String, String)>>,
    /// The state of eager parameters.
    eager: Mutex<EagerOptimizer>,
}

#[pymethods]
impl Optimizer {
    #[new]
    fn new(py: Python<'_>, kind: String, config: &Bound<'_, PyDict>) -> PyResult<Optimizer> {
        let engine = optimizer_of(&kind, config, Chosen::default())?;
        let config = config.copy()?.unbind();
        let eager = Mutex::new(EagerOptimizer::new(engine));
        if let Some(amp) = config.bind(py).get_item("amp")?.filter(|amp| !amp.is_none()) {
            amp_of(amp.cast::<PyDict>()?)?;
        }
        let (learning_rate, scaled) = (Mutex::new(None), Mutex::new(None));
        Ok(Optimizer { kind, config, learning_rate, scaled, eager })
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
        let chosen = static_optimizer::chosen(loss, parameter_list, no_grad_set)?;
        match static_optimizer::mixed(py, self, chosen)? {
            Some(mixed) => static_optimizer::mixed_backward(py, self, &mixed, loss),
            None => crate::backward::append_backward(py, loss, parameter_list, no_grad_set),
        }
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

    /// Makes one step on those of `params` that have gradients.
    fn step(
        &self,
        py: Python<'_>,
        params: Vec<PyRef<'_, Tensor>>,
        learning_rate: f64,
    ) -> PyResult<()> {
        let params: Vec<EagerTensor> = params.iter().map(|param| param.inner.clone()).collect();
        let mut eager = self.eager.lock().unwrap_or_else(PoisonError::into_inner);
        enter_held(py, || eager.step(&params, learning_rate))?;
        jobs::report_step(None);
        Ok(())
    }

    /// The state kept beside eager parameters, by name; a step leaves what is held here as it is.
    fn accumulators<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // Held first: making Python objects may run any Python code, which may need the lock.
        let held: Vec<(String, Arc<Held>)> = {
            let eager = self.eager.lock().unwrap_or_else(PoisonError::into_inner);
            eager.accumulators().map(|(name, held)| (name.to_owned(), Arc::clone(held))).collect()
        };
        let all = PyDict::new(py);
        for (name, held) in held {
            let tensor = EagerTensor::from_held(held);
            tensor.set_name(name.as_str());
            tensor.set_persistable(true);
            all.set_item(name, Tensor::wrap(py, tensor)?)?;
        }
        Ok(all)
    }

    /// Sets the state of one accumulator, as a saved state gives it.
    fn set_accumulator(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let held = value_from(value, None, None)?;
        let mut eager = self.eager.lock().unwrap_or_else(PoisonError::into_inner);
        eager.set_accumulator(name, held);
        Ok(())
    }

    /// With mixed precision, the scaled loss and the variable that holds its factor; `None` where the loss is not
    /// scaled, or not yet.
    #[getter]
    fn scaled_loss_names(&self) -> Option<(String, String)> {
        self.scaled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The variable that holds the learning rate; `None` before updates have been appended.
    #[getter]
    fn learning_rate_name(&self) -> Option<String> {
        let rate = self.learning_rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.as_ref().map(|(_, name)| name.clone())
    }
}
