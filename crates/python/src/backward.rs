//! Gradients of static programs.

use bireme_engine::autodiff;
use bireme_engine::graph::Variable as Handle;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::block::name_of;
use crate::context;
use crate::error::to_py;
use crate::program::Program;
use crate::site::site;
use crate::variable::Variable;

/// Each parameter with its gradient.
pub(crate) type Pairs = Vec<(Variable, Variable)>;

/// Appends the gradients of `loss` and returns each parameter with its gradient.
#[pyfunction]
#[pyo3(signature = (loss, parameter_list=None, no_grad_set=None))]
pub(crate) fn append_backward(
    py: Python<'_>,
    loss: &Bound<'_, Variable>,
    parameter_list: Option<&Bound<'_, PyAny>>,
    no_grad_set: Option<&Bound<'_, PyAny>>,
) -> PyResult<Pairs> {
    let program = loss.get().program().bind(py);
    let graph = context::graph(py, program.get(), None, site(py).as_deref())?;
    let handle = |name: &String| graph.variable(name).map_err(to_py);
    let loss = handle(&loss.get().name)?;
    let listed = parameter_list.map(names_of).transpose()?;
    let listed: Option<Vec<Handle>> =
        listed.map(|names| names.iter().map(handle).collect()).transpose()?;
    let listed: Option<Vec<&Handle>> = listed.as_ref().map(|all| all.iter().collect());
    let no_grad = known(&graph, no_grad_set)?;
    let no_grad: Vec<&Handle> = no_grad.iter().collect();
    let pairs = autodiff::append_backward(&loss, listed.as_deref(), &no_grad).map_err(to_py)?;
    Ok(wrap(program, pairs))
}

/// Appends the gradients of `targets` with respect to `inputs`.
#[pyfunction]
#[pyo3(signature = (targets, inputs, target_gradients=None, no_grad_set=None))]
pub(crate) fn gradients(
    py: Python<'_>,
    targets: Vec<Bound<'_, Variable>>,
    inputs: Vec<Bound<'_, Variable>>,
    target_gradients: Option<Vec<Option<Bound<'_, Variable>>>>,
    no_grad_set: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Option<Variable>>> {
    let Some(first) = targets.first() else {
        return Err(PyValueError::new_err("gradients of nothing: name at least one target"));
    };
    let program = first.get().program().bind(py);
    let graph = context::graph(py, program.get(), None, site(py).as_deref())?;
    let handle = |variable: &Bound<'_, Variable>| graph.variable(&variable.get().name);
    let handles = |all: &[Bound<'_, Variable>]| -> PyResult<Vec<Handle>> {
        all.iter().map(handle).collect::<Result<_, _>>().map_err(to_py)
    };
    let (targets, inputs) = (handles(&targets)?, handles(&inputs)?);
    let weights: Option<Vec<Option<Handle>>> = target_gradients
        .map(|all| {
            let weights = all.iter().map(|one| one.as_ref().map(handle).transpose());
            weights.collect::<Result<_, _>>().map_err(to_py)
        })
        .transpose()?;
    let no_grad = known(&graph, no_grad_set)?;
    let found = autodiff::gradients(
        &targets.iter().collect::<Vec<_>>(),
        &inputs.iter().collect::<Vec<_>>(),
        weights.as_deref(),
        &no_grad.iter().collect::<Vec<_>>(),
    );
    let named = |grad: Handle| Variable::new(program, 0, grad.name().to_owned());
    Ok(found.map_err(to_py)?.into_iter().map(|grad| grad.map(named)).collect())
}

/// The names of a list or set of variables or names.
pub(crate) fn names_of(given: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    given.try_iter()?.map(|one| name_of(&one?)).collect()
}

/// Pairs of the engine as pairs of Python.
pub(crate) fn wrap(program: &Bound<'_, Program>, mut pairs: Vec<(Handle, Handle)>) -> Pairs {
    // Updates are appended by name; Paddle returns the pairs in the order of the parameters.
    program.get().handle.read(|inner| {
        pairs.sort_by_key(|(param, _)| inner.global().vars.get_index_of(param.name()));
    });
    let named = |variable: &Handle| Variable::new(program, 0, variable.name().to_owned());
    pairs.iter().map(|(param, grad)| (named(param), named(grad))).collect()
}

/// Handles to those of the given variables that the program has: as in Paddle, a set of names may
/// serve several programs.
fn known(
    graph: &bireme_engine::graph::Graph,
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Handle>> {
    let names = given.map(names_of).transpose()?.unwrap_or_default();
    Ok(names.iter().filter_map(|name| graph.variable(name).ok()).collect())
}
