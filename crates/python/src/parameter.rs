//! Parameters and other persistable variables of static programs, and their first values.

use bireme_engine::initializer::{Fan, Initializer};
use bireme_engine::ir::{OpRole, Param, Regularizer, Var};
use bireme_engine::layers::{self, ParamAttr};
use bireme_engine::{DType, tensor::Tensor};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::context;
use crate::convert::dtype_of;
use crate::eager_parameter::Parameter;
use crate::error::{enter_held, to_py};
use crate::kwargs::Kwargs;
use crate::session::session;
use crate::site::site;
use crate::variable::Variable;
use crate::window::Array;

/// A regulariser as Python writes it: kind and coefficient.
pub(crate) type Penalty = (String, f32);

/// An initialiser as Python writes it: kind and numbers.
pub(crate) type Init<'py> = (String, Bound<'py, PyDict>);

/// What a caller of `create_parameter` says.
pub(crate) struct ParamSpec {
    pub(crate) name: String,
    pub(crate) shape: Vec<i64>,
    pub(crate) dtype: DType,
    pub(crate) initializer: Initializer,
    pub(crate) trainable: bool,
    pub(crate) learning_rate: f32,
    pub(crate) regularizer: Option<Regularizer>,
    pub(crate) need_clip: bool,
}

/// A parameter of the default programs.
pub(crate) fn create_static(py: Python<'_>, spec: ParamSpec) -> PyResult<Variable> {
    let program = context::default_main_program(py)?;
    let graph = context::graph(py, program.get(), None, site(py).as_deref())?;
    let attr = ParamAttr {
        name: Some(spec.name),
        initializer: Some(spec.initializer),
        learning_rate: spec.learning_rate,
        regularizer: spec.regularizer,
        trainable: spec.trainable,
        need_clip: spec.need_clip,
    };
    let default = Initializer::default_bias();
    let made = layers::create_parameter(&graph, &attr, "", spec.shape, spec.dtype, &default);
    let made = made.map_err(to_py)?;
    Ok(Variable::new(program.bind(py), 0, made.name().to_owned()))
}

/// A parameter: of the default programs in static mode, a tensor in eager mode.
#[pyfunction]
#[pyo3(signature = (shape, dtype, name, initializer, trainable=true, learning_rate=1.0,
                    regularizer=None, need_clip=true))]
#[expect(clippy::too_many_arguments, reason = "what a parameter can be told")]
pub(crate) fn create_parameter(
    py: Python<'_>,
    shape: Vec<i64>,
    dtype: &Bound<'_, PyAny>,
    name: String,
    initializer: Init<'_>,
    trainable: bool,
    learning_rate: f32,
    regularizer: Option<Penalty>,
    need_clip: bool,
) -> PyResult<Py<PyAny>> {
    let dtype = dtype_of(dtype)?;
    let shape = shape_of(Some(shape))?;
    if let Some(dim) = shape.iter().find(|dim| **dim < 0) {
        let text = format!("parameter `{name}` {shape:?}: {dim} is no size that it can have");
        return Err(PyValueError::new_err(text));
    }
    let initializer = initializer_of(&initializer, dtype)?;
    let regularizer = regularizer.map(penalty_of).transpose()?;
    let spec = ParamSpec {
        name,
        shape,
        dtype,
        initializer,
        trainable,
        learning_rate,
        regularizer,
        need_clip,
    };
    if context::in_dynamic_mode() {
        create_eager(py, &spec)
    } else {
        create_static(py, spec)?.into_py_any(py)
    }
}

/// A parameter of eager mode, with its first value.
fn create_eager(py: Python<'_>, spec: &ParamSpec) -> PyResult<Py<PyAny>> {
    let var = Var::parameter(spec.name.as_str(), spec.dtype, spec.shape.clone());
    let op = spec.initializer.op(&var).map_err(to_py)?;
    let tensor = enter_held(py, || session().initial_value(&op))?;
    tensor.set_name(spec.name.as_str());
    let param = Param {
        trainable: spec.trainable,
        learning_rate: spec.learning_rate,
        regularizer: spec.regularizer,
        need_clip: spec.need_clip,
    };
    Parameter::wrap(py, tensor, param)
}

/// A persistable variable of the default programs, filled with `value` by the startup program.
#[pyfunction]
#[pyo3(signature = (shape, value, dtype, persistable=false, name=None))]
pub(crate) fn create_global_var(
    py: Python<'_>,
    shape: Vec<i64>,
    value: f64,
    dtype: &Bound<'_, PyAny>,
    persistable: bool,
    name: Option<String>,
) -> PyResult<Variable> {
    let program = context::default_main_program(py)?;
    let graph = context::graph(py, program.get(), None, site(py).as_deref())?;
    let name = name.unwrap_or_else(|| {
        let layer = graph.unique_name("global_var");
        graph.unique_name(&format!("{layer}.tmp"))
    });
    let mut var = Var::tensor(name.as_str(), dtype_of(dtype)?, shape_of(Some(shape))?);
    // A variable that no op of the main program writes has to live in the scope to have a value.
    let _ = persistable;
    (var.persistable, var.stop_gradient) = (true, true);
    let init = Initializer::Constant(value).op(&var).map_err(to_py)?.role(OpRole::FORWARD);
    graph.persistable(var, init);
    Ok(Variable::new(program.bind(py), 0, name))
}

/// A shape that a variable can have: -1 stands for what only data will tell.
pub(crate) fn shape_of(shape: Option<Vec<i64>>) -> PyResult<Vec<i64>> {
    let shape = shape.unwrap_or_default();
    match shape.iter().find(|dim| **dim < -1) {
        None => Ok(shape),
        Some(dim) => Err(PyValueError::new_err(format!(
            "shape {shape:?}: {dim} is no dimension, use -1 for one that only data will tell"
        ))),
    }
}

/// The regulariser that `("l2", 0.1)` stands for.
pub(crate) fn penalty_of((kind, coeff): Penalty) -> PyResult<Regularizer> {
    match kind.as_str() {
        "l1" => Ok(Regularizer::L1(coeff)),
        "l2" => Ok(Regularizer::L2(coeff)),
        other => Err(PyValueError::new_err(format!("no regularizer `{other}`: there are l1, l2"))),
    }
}

/// The initialiser that a kind and its numbers stand for; `shape` and `dtype` are the parameter's.
pub(crate) fn initializer_of(init: &Init<'_>, dtype: DType) -> PyResult<Initializer> {
    let (kind, kwargs) = init;
    let mut given = Kwargs::new(format!("initializer `{kind}`"), kwargs)?;
    let seed =
        if matches!(kind.as_str(), "constant" | "assign") { 0 } else { given.or("seed", 0)? };
    let made = match kind.as_str() {
        "constant" => Initializer::Constant(given.or("value", 0.0)?),
        "uniform" => {
            let (low, high) = (given.or("low", -1.0)?, given.or("high", 1.0)?);
            Initializer::Uniform { low, high, seed }
        }
        "normal" | "truncated_normal" => {
            let (mean, std) = (given.or("mean", 0.0)?, given.or("std", 1.0)?);
            match kind.as_str() {
                "normal" => Initializer::Normal { mean, std, seed },
                _ => Initializer::TruncatedNormal { mean, std, seed },
            }
        }
        "xavier" => Initializer::Xavier(Fan {
            uniform: given.or("uniform", true)?,
            fan_in: given.maybe("fan_in")?,
            fan_out: given.maybe("fan_out")?,
            negative_slope: 0.0,
            seed,
        }),
        "msra" => Initializer::Msra(Fan {
            uniform: given.or("uniform", true)?,
            fan_in: given.maybe("fan_in")?,
            fan_out: None,
            negative_slope: given.or("negative_slope", 0.0)?,
            seed,
        }),
        "assign" => Initializer::Assign(assigned(&given.take("value")?, dtype)?),
        other => {
            return Err(PyValueError::new_err(format!(
                "no initializer `{other}`: there are constant, uniform, normal, truncated_normal, \
                 xavier, msra, assign"
            )));
        }
    };
    given.end()?;
    Ok(made)
}

/// An array as a tensor of the parameter's type.
fn assigned(value: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Tensor> {
    let py = value.py();
    let array = py.import("numpy")?.call_method1("asarray", (value, dtype.name()))?;
    let array = Array::new(&array)
        .map_err(|error| PyTypeError::new_err(format!("initial value: {error}")))?;
    Ok(array.tensor().clone())
}
