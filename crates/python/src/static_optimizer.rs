//! Optimizers on static programs: gradients and updates as ops.

use std::sync::PoisonError;

use bireme_engine::amp::{Amp, MixedPrecision};
use bireme_engine::graph::{Graph, Variable as Handle};
use bireme_engine::optimizer::{Minimized, Optimizer as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::amp::amp_of;
use crate::backward::{Pairs, names_of, wrap};
use crate::context;
use crate::error::to_py;
use crate::operator::Operator;
use crate::optimizer::Optimizer;
use crate::optimizer_config::{AnyOptimizer, Chosen, optimizer_of, rate_of};
use crate::program::Program;
use crate::site::site;
use crate::variable::Variable;

/// What one call says: parameters to train, and variables of the loss's program that stop gradients.
pub(crate) fn chosen(
    loss: &Bound<'_, Variable>,
    parameter_list: Option<&Bound<'_, PyAny>>,
    no_grad_set: Option<&Bound<'_, PyAny>>,
) -> PyResult<Chosen> {
    let mut no_grad = no_grad_set.map(names_of).transpose()?.unwrap_or_default();
    let program = loss.get().program().get();
    program.handle.read(|inner| no_grad.retain(|name| inner.global().var(name).is_some()));
    let parameter_list = parameter_list.map(names_of).transpose()?;
    Ok(Chosen { parameter_list, no_grad, learning_rate: None })
}

/// Appends gradients and updates of `loss`.
pub(crate) fn minimize(
    py: Python<'_>,
    optimizer: &Optimizer,
    loss: &Bound<'_, Variable>,
    chosen: Chosen,
    startup: Option<&Bound<'_, Program>>,
) -> PyResult<(Vec<Operator>, Pairs)> {
    let program = loss.get().program().bind(py);
    let graph = graph(py, program, startup)?;
    let loss = graph.variable(&loss.get().name).map_err(to_py)?;
    let chosen = Chosen { learning_rate: known_rate(optimizer, program), ..chosen };
    let engine = optimizer_of(&optimizer.kind, optimizer.config.bind(py), chosen)?;
    let minimized = match amp_asked(py, optimizer)? {
        Some(amp) => {
            let mixed = MixedPrecision::new(engine, amp);
            let minimized = mixed.minimize(&loss).map_err(to_py)?;
            remember_scaled(optimizer, &mixed);
            minimized
        }
        None => engine.minimize(&loss).map_err(to_py)?,
    };
    let pairs = wrap(program, minimized.params_grads.clone());
    Ok((finish(optimizer, program, &minimized), pairs))
}

/// Appends updates for given gradients; parameters without one are left as they are.
pub(crate) fn apply_gradients(
    py: Python<'_>,
    optimizer: &Optimizer,
    params_grads: Vec<(Bound<'_, Variable>, Option<Bound<'_, Variable>>)>,
    startup: Option<&Bound<'_, Program>>,
) -> PyResult<Vec<Operator>> {
    let Some((first, _)) = params_grads.first() else {
        return Err(PyValueError::new_err("no gradients to apply: does the loss have parameters?"));
    };
    let program = first.get().program().bind(py);
    let graph = graph(py, program, startup)?;
    let handle = |variable: &Bound<'_, Variable>| graph.variable(&variable.get().name);
    let mut pairs: Vec<(Handle, Handle)> = Vec::new();
    for (param, grad) in &params_grads {
        if let Some(grad) = grad {
            pairs.push((handle(param).map_err(to_py)?, handle(grad).map_err(to_py)?));
        }
    }
    let chosen = Chosen { learning_rate: known_rate(optimizer, program), ..Chosen::default() };
    let engine = optimizer_of(&optimizer.kind, optimizer.config.bind(py), chosen)?;
    let minimized = match amp_asked(py, optimizer)? {
        Some(amp) => {
            let mut mixed = MixedPrecision::new(engine, amp);
            let scaled = optimizer.scaled.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some((loss, factor)) = scaled {
                let find = |name: &String| graph.variable(name).map_err(to_py);
                mixed = mixed.scaled_by(find(&loss)?, find(&factor)?);
            }
            mixed.apply_gradients(pairs).map_err(to_py)?
        }
        None => engine.apply_gradients(pairs).map_err(to_py)?,
    };
    Ok(finish(optimizer, program, &minimized))
}

/// The mixed precision that an optimizer was told of.
fn amp_asked(py: Python<'_>, optimizer: &Optimizer) -> PyResult<Option<Amp>> {
    let asked = optimizer.config.bind(py).get_item("amp")?.filter(|amp| !amp.is_none());
    asked.map(|amp| amp_of(amp.cast::<PyDict>()?)).transpose()
}

/// The optimizer with the mixed precision that it was told of, if it was.
pub(crate) fn mixed(
    py: Python<'_>,
    optimizer: &Optimizer,
    chosen: Chosen,
) -> PyResult<Option<MixedPrecision<AnyOptimizer>>> {
    let Some(amp) = amp_asked(py, optimizer)? else { return Ok(None) };
    let engine = optimizer_of(&optimizer.kind, optimizer.config.bind(py), chosen)?;
    Ok(Some(MixedPrecision::new(engine, amp)))
}

/// Rewrites the program of `loss` for mixed precision, and appends the gradients.
pub(crate) fn mixed_backward(
    py: Python<'_>,
    optimizer: &Optimizer,
    mixed: &MixedPrecision<AnyOptimizer>,
    loss: &Bound<'_, Variable>,
) -> PyResult<Pairs> {
    let program = loss.get().program().bind(py);
    let graph = graph(py, program, None)?;
    let loss = graph.variable(&loss.get().name).map_err(to_py)?;
    let pairs = mixed.backward(&loss).map_err(to_py)?;
    remember_scaled(optimizer, mixed);
    Ok(wrap(program, pairs))
}

fn remember_scaled(optimizer: &Optimizer, mixed: &MixedPrecision<AnyOptimizer>) {
    let names = mixed.scaled_loss().zip(mixed.loss_scaling());
    let names = names.map(|(loss, factor)| (loss.name().to_owned(), factor.name().to_owned()));
    *optimizer.scaled.lock().unwrap_or_else(PoisonError::into_inner) = names;
}

/// Declares a learning rate in the default programs, with the ops that compute it.
#[pyfunction]
pub(crate) fn learning_rate(py: Python<'_>, rate: &Bound<'_, PyAny>) -> PyResult<Variable> {
    let program = context::default_main_program(py)?;
    let program = program.bind(py);
    let built = rate_of(rate)?.build(&graph(py, program, None)?).map_err(to_py)?;
    Ok(Variable::new(program, 0, built.name().to_owned()))
}

fn graph(
    py: Python<'_>,
    program: &Bound<'_, Program>,
    startup: Option<&Bound<'_, Program>>,
) -> PyResult<Graph> {
    let startup = startup.map(|startup| startup.get());
    context::graph(py, program.get(), startup, site(py).as_deref())
}

/// The learning rate that this optimizer has in `program`: one serves all its updates.
fn known_rate(optimizer: &Optimizer, program: &Bound<'_, Program>) -> Option<String> {
    let rate = optimizer.learning_rate.lock().unwrap_or_else(PoisonError::into_inner);
    let here = |(id, _): &&(u64, String)| *id == program.get().handle.id();
    rate.as_ref().filter(here).map(|(_, name)| name.clone())
}

/// Remembers the learning rate, and finds the update ops: they are the last of the program.
fn finish(
    optimizer: &Optimizer,
    program: &Bound<'_, Program>,
    minimized: &Minimized,
) -> Vec<Operator> {
    let rate = (program.get().handle.id(), minimized.learning_rate.name().to_owned());
    *optimizer.learning_rate.lock().unwrap_or_else(PoisonError::into_inner) = Some(rate);
    let count = minimized.optimize_ops.len();
    let total = program.get().handle.read(|inner| inner.global().ops.len());
    (total - count..total).map(|index| Operator::new(program, 0, index)).collect()
}
