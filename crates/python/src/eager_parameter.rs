//! `Parameter`: a tensor that optimizers update.

use bireme_engine::eager::EagerTensor;
use bireme_engine::ir::{Param, Regularizer};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::context;
use crate::parameter::{Penalty, penalty_of};
use crate::tensor::{Tensor, optional_dtype, value_from};

/// A tensor that optimizers update.
#[pyclass(frozen, dict, weakref, subclass, extends = Tensor, module = "bireme._core")]
pub(crate) struct Parameter;

impl Parameter {
    /// Makes a parameter of `inner`.
    pub(crate) fn wrap(py: Python<'_>, inner: EagerTensor, param: Param) -> PyResult<Py<PyAny>> {
        inner.set_param(param);
        inner.set_persistable(true);
        let class = PyClassInitializer::from(Tensor { inner }).add_subclass(Parameter);
        Py::new(py, class)?.into_py_any(py)
    }
}

fn edit(slf: &Bound<'_, Parameter>, change: impl FnOnce(&mut Param)) {
    let inner = &slf.as_super().get().inner;
    let mut param = inner.param().unwrap_or_default();
    change(&mut param);
    inner.set_param(param);
}

fn param(slf: &Bound<'_, Parameter>) -> Param {
    slf.as_super().get().inner.param().unwrap_or_default()
}

#[pymethods]
impl Parameter {
    /// A parameter with a copy of `value`.
    #[new]
    #[pyo3(signature = (value, dtype=None, name=None, trainable=true))]
    fn new(
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        name: Option<String>,
        trainable: bool,
    ) -> PyResult<PyClassInitializer<Parameter>> {
        let inner = EagerTensor::from_held(value_from(value, optional_dtype(dtype)?, None)?);
        inner.set_name(match name {
            Some(name) => name,
            None => context::unique_name(py, "parameter")?,
        });
        inner.set_param(Param { trainable, ..Param::default() });
        inner.set_persistable(true);
        Ok(PyClassInitializer::from(Tensor { inner }).add_subclass(Parameter))
    }

    /// Whether optimizers update it.
    #[getter]
    fn trainable(slf: &Bound<'_, Self>) -> bool {
        !slf.as_super().get().inner.stop_gradient()
    }

    #[setter]
    fn set_trainable(slf: &Bound<'_, Self>, trainable: bool) {
        edit(slf, |param| param.trainable = trainable);
    }

    /// The factor on the optimizer's learning rate.
    #[getter]
    fn learning_rate(slf: &Bound<'_, Self>) -> f32 {
        param(slf).learning_rate
    }

    #[setter]
    fn set_learning_rate(slf: &Bound<'_, Self>, factor: f32) {
        edit(slf, |param| param.learning_rate = factor);
    }

    /// Its own penalty: `("l2", coefficient)`, `("l1", coefficient)` or `None`.
    #[getter]
    fn regularizer(slf: &Bound<'_, Self>) -> Option<Penalty> {
        param(slf).regularizer.map(|regularizer| match regularizer {
            Regularizer::L1(coefficient) => ("l1".to_owned(), coefficient),
            Regularizer::L2(coefficient) => ("l2".to_owned(), coefficient),
        })
    }

    #[setter]
    fn set_regularizer(slf: &Bound<'_, Self>, penalty: Option<Penalty>) -> PyResult<()> {
        let regularizer = penalty.map(penalty_of).transpose()?;
        edit(slf, |param| param.regularizer = regularizer);
        Ok(())
    }

    /// Whether gradient clipping includes it.
    #[getter]
    fn need_clip(slf: &Bound<'_, Self>) -> bool {
        param(slf).need_clip
    }

    #[setter]
    fn set_need_clip(slf: &Bound<'_, Self>, need_clip: bool) {
        edit(slf, |param| param.need_clip = need_clip);
    }
}
