//! `Scope` and `ScopeVar`: where persistable variables keep their values.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use bireme_engine::Scope as EngineScope;
use pyo3::prelude::*;

use crate::error::to_py;
use crate::lod_tensor::LoDTensor;

/// Variables by name.
///
/// >>> scope = paddle.static.Scope()
/// >>> scope.find_var("w") is None
/// True
#[pyclass(frozen, weakref, module = "bireme._core")]
#[derive(Default)]
pub(crate) struct Scope {
    pub(crate) engine: EngineScope,
    /// Variables that `var` made; they may hold nothing yet.
    made: Mutex<BTreeSet<String>>,
}

impl Scope {
    fn made<T>(&self, work: impl FnOnce(&mut BTreeSet<String>) -> T) -> T {
        work(&mut self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn at(&self, name: &str) -> ScopeVar {
        ScopeVar { scope: self.engine.clone(), name: name.to_owned() }
    }
}

#[pymethods]
impl Scope {
    #[new]
    fn new() -> Scope {
        Scope::default()
    }

    /// The variable `name`, made if there is none.
    fn var(&self, name: &str) -> ScopeVar {
        self.made(|made| made.insert(name.to_owned()));
        self.at(name)
    }

    /// The variable `name`, if there is one.
    fn find_var(&self, name: &str) -> Option<ScopeVar> {
        let known = self.engine.contains(name) || self.made(|made| made.contains(name));
        known.then(|| self.at(name))
    }

    /// Names of the variables that hold a value, sorted.
    fn names(&self) -> Vec<String> {
        self.engine.names()
    }

    /// Forgets variable `name`, or each of a list of names.
    fn erase(&self, names: &Bound<'_, PyAny>) -> PyResult<()> {
        let names = match names.extract::<String>() {
            Ok(name) => vec![name],
            Err(_) => names.extract::<Vec<String>>()?,
        };
        for name in names {
            self.engine.try_remove(&name).map_err(to_py)?;
            self.made(|made| made.remove(&name));
        }
        Ok(())
    }

    fn __contains__(&self, name: &str) -> bool {
        self.engine.contains(name)
    }
}

/// One variable of a scope.
#[pyclass(frozen, weakref, module = "bireme._core")]
pub(crate) struct ScopeVar {
    scope: EngineScope,
    name: String,
}

#[pymethods]
impl ScopeVar {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Its tensor, to be read and set.
    fn get_tensor(&self) -> LoDTensor {
        LoDTensor::of_scope(self.scope.clone(), self.name.clone())
    }

    fn is_initialized(&self) -> bool {
        self.scope.contains(&self.name)
    }
}
