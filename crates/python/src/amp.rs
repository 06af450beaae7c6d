//! Mixed precision: what Python asks for, as settings of the engine.

use std::sync::Arc;

use bireme_engine::DType;
use bireme_engine::amp::{Amp, Dynamic, Level, Lists, LossScaling};
use bireme_engine::eager::{AutoCast, CastScope};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::to_py;
use crate::kwargs::Kwargs;
use crate::session::session;

/// The lists of op types, with what a user adds to them, by their colours: `white`, `gray` and `black`.
#[pyfunction]
#[pyo3(signature = (white=Vec::new(), black=Vec::new()))]
pub(crate) fn amp_lists<'py>(
    py: Python<'py>,
    white: Vec<String>,
    black: Vec<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let lists = lists_of(&white, &black, &[])?;
    let all = PyDict::new(py);
    all.set_item("white", lists.white().collect::<Vec<_>>())?;
    all.set_item("gray", lists.gray().collect::<Vec<_>>())?;
    all.set_item("black", lists.black().collect::<Vec<_>>())?;
    Ok(all)
}

/// What eager ops of this thread are cast to; given back to [`set_auto_cast`] to restore it.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct AutoCastState(Option<Arc<AutoCast>>);

#[pymethods]
impl AutoCastState {
    /// The level, `O0` when ops are not cast.
    #[getter]
    fn level(&self) -> &'static str {
        match self.0.as_ref().map(|auto_cast| auto_cast.scope) {
            None => "O0",
            Some(CastScope::Follow) => "O1",
            Some(CastScope::All) => "O2",
            Some(CastScope::White) => "OD",
        }
    }

    /// The type of 16 bits, `float32` when ops are not cast.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.as_ref().map_or(DType::F32, |auto_cast| auto_cast.dtype).name()
    }
}

/// How eager ops choose their precision.
#[pyfunction]
pub(crate) fn auto_cast_state(
    level: &str,
    dtype: &str,
    white: Vec<String>,
    black: Vec<String>,
    promotes: bool,
) -> PyResult<AutoCastState> {
    let scope = match level {
        "O0" => return Ok(AutoCastState(None)),
        "O1" => CastScope::Follow,
        "O2" => CastScope::All,
        "OD" => CastScope::White,
        other => {
            return Err(PyValueError::new_err(format!(
                "`level` is O0, OD, O1 or O2, not `{other}`"
            )));
        }
    };
    let (dtype, lists) = (half_of(dtype)?, lists_of(&white, &black, &[])?);
    Ok(AutoCastState(Some(Arc::new(AutoCast { dtype, scope, lists, promotes }))))
}

/// Sets how eager ops of this thread choose their precision; returns what was before.
#[pyfunction]
pub(crate) fn set_auto_cast(state: &AutoCastState) -> AutoCastState {
    AutoCastState(session().set_auto_cast(state.0.clone()))
}

/// How eager ops of this thread choose their precision.
#[pyfunction]
pub(crate) fn get_auto_cast() -> AutoCastState {
    AutoCastState(session().auto_cast())
}

/// The mixed precision of a static program from a dictionary.
pub(crate) fn amp_of(config: &Bound<'_, PyDict>) -> PyResult<Amp> {
    let mut given = Kwargs::new("mixed precision".to_owned(), config)?;
    let dtype: String = given.or("dtype", "float16".to_owned())?;
    let level: String = given.or("level", "O1".to_owned())?;
    let level = match level.as_str() {
        "O1" => Level::O1,
        "O2" => Level::O2,
        other => {
            return Err(PyValueError::new_err(format!(
                "the level of a static program is O1 or O2, not `{other}`"
            )));
        }
    };
    let white: Vec<String> = given.or("white", Vec::new())?;
    let black: Vec<String> = given.or("black", Vec::new())?;
    let black_vars: Vec<String> = given.or("black_varnames", Vec::new())?;
    let initial: f32 = given.or("init_loss_scaling", 1.0)?;
    let dynamic = Dynamic {
        incr_every_n_steps: given.or("incr_every_n_steps", 1000)?,
        decr_every_n_nan_or_inf: given.or("decr_every_n_nan_or_inf", 2)?,
        incr_ratio: given.or("incr_ratio", 2.0)?,
        decr_ratio: given.or("decr_ratio", 0.8)?,
    };
    let is_dynamic: bool = given.or("use_dynamic_loss_scaling", false)?;
    let master_weight: bool = given.or("master_weight", true)?;
    given.end()?;
    if !(initial.is_finite() && initial > 0.0) {
        return Err(PyValueError::new_err(format!(
            "`init_loss_scaling` must be above 0, not {initial}"
        )));
    }
    let scaling = LossScaling { initial, dynamic: is_dynamic.then_some(dynamic) };
    let lists = lists_of(&white, &black, &black_vars)?;
    let amp = Amp::new(half_of(&dtype)?).map_err(to_py)?;
    Ok(Amp { master_weight, ..amp.level(level).lists(lists).scaling(scaling) })
}

fn lists_of(white: &[String], black: &[String], black_vars: &[String]) -> PyResult<Lists> {
    Lists::custom(white, black, black_vars)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

fn half_of(name: &str) -> PyResult<DType> {
    match DType::from_name(name) {
        Some(dtype @ (DType::F16 | DType::BF16)) => Ok(dtype),
        _ => Err(PyValueError::new_err(format!(
            "`dtype` of mixed precision is `float16` or `bfloat16`, not `{name}`"
        ))),
    }
}
