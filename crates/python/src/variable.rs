//! `Variable`: a variable of a program. Its facts live in the program; this is a name for them.

use bireme_engine::ir::{self, Param, Regularizer, Var};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

use crate::block::Block;
use crate::convert::dtype_object;
use crate::parameter::{Penalty, penalty_of};
use crate::program::Program;

/// A variable of a static program.
///
/// >>> paddle.enable_static()
/// >>> x = paddle.static.data("x", [None, 2], "float32")
/// >>> (x + 1.0).shape
/// (-1, 2)
///
/// Some interpreters make the instance's dictionary, and may collect meanwhile, before the fields
/// here have been written; all of memory is zero then.
#[pyclass(frozen, dict, weakref, subclass, module = "bireme._core")]
pub(crate) struct Variable {
    /// Always there; an option because the collector may look before it is written.
    held: Option<Py<Program>>,
    block: usize,
    #[pyo3(get)]
    pub(crate) name: String,
}

impl Variable {
    pub(crate) fn new(program: &Bound<'_, Program>, block: usize, name: String) -> Variable {
        Variable { held: Some(program.clone().unbind()), block, name }
    }

    /// Its program.
    pub(crate) fn program(&self) -> &Py<Program> {
        self.held.as_ref().expect("given when it was made")
    }

    /// Looks at its declaration.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Var) -> T) -> PyResult<T> {
        let found = self
            .program()
            .get()
            .handle
            .read(|program| program.find_var(self.block, &self.name).map(look));
        found.ok_or_else(|| self.lost())
    }

    fn edit<T>(&self, edit: impl FnOnce(&mut Var) -> T) -> PyResult<T> {
        let found = self.program().get().handle.edit(|program| {
            let var = program.blocks.get_mut(self.block)?.vars.get_mut(&self.name);
            var.map(edit)
        });
        found.ok_or_else(|| self.lost())
    }

    fn edit_param(&self, edit: impl FnOnce(&mut Param)) -> PyResult<()> {
        let edited = self.edit(|var| var.param.as_mut().map(edit).is_some())?;
        if edited {
            Ok(())
        } else {
            Err(PyValueError::new_err(format!("`{}` is no parameter", self.name)))
        }
    }

    fn lost(&self) -> PyErr {
        PyValueError::new_err(format!("the program has no variable `{}` any more", self.name))
    }
}

#[pymethods]
impl Variable {
    /// The dimensions; -1 where only data will tell.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.read(|var| var.shape.clone())?)
    }

    /// Leaves dimensions open: what a loop writes into it may have another size each time.
    fn _set_shape(&self, shape: Vec<i64>) -> PyResult<()> {
        self.edit(|var| var.shape = shape)
    }

    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        dtype_object(py, self.read(|var| var.dtype)?)
    }

    #[getter]
    fn ndim(&self) -> PyResult<usize> {
        self.read(|var| var.shape.len())
    }

    #[getter]
    fn lod_level(&self) -> PyResult<u32> {
        self.read(|var| var.lod_level)
    }

    /// What it holds: `LOD_TENSOR`, `SELECTED_ROWS`.
    #[getter]
    fn r#type(&self) -> PyResult<&'static str> {
        self.read(|var| var.kind.name())
    }

    #[getter]
    fn stop_gradient(&self) -> PyResult<bool> {
        self.read(|var| var.stop_gradient)
    }

    #[setter]
    fn set_stop_gradient(&self, stop: bool) -> PyResult<()> {
        self.edit(|var| var.stop_gradient = stop)
    }

    #[getter]
    fn persistable(&self) -> PyResult<bool> {
        self.read(|var| var.persistable)
    }

    #[setter]
    fn set_persistable(&self, persistable: bool) -> PyResult<()> {
        self.edit(|var| var.persistable = persistable)
    }

    #[getter]
    fn is_data(&self) -> bool {
        self.program().get().is_data(&self.name)
    }

    #[getter]
    fn is_parameter(&self) -> PyResult<bool> {
        self.read(Var::is_parameter)
    }

    #[getter]
    fn need_check_feed(&self) -> PyResult<bool> {
        self.read(|var| var.need_check_feed)
    }

    #[getter]
    fn block(&self, py: Python<'_>) -> Block {
        Block::new(self.program().bind(py), self.block)
    }

    /// The name of its gradient.
    #[getter]
    fn grad_name(&self) -> String {
        ir::grad_name(&self.name)
    }

    /// Whether optimizers update it.
    #[getter]
    fn trainable(&self) -> PyResult<bool> {
        self.read(|var| var.param.as_ref().is_some_and(|param| param.trainable))
    }

    #[setter]
    fn set_trainable(&self, trainable: bool) -> PyResult<()> {
        self.edit_param(|param| param.trainable = trainable)?;
        self.edit(|var| var.stop_gradient = !trainable)
    }

    /// The factor on the optimizer's learning rate.
    #[getter]
    fn learning_rate(&self) -> PyResult<f32> {
        self.read(|var| var.param.as_ref().map_or(1.0, |param| param.learning_rate))
    }

    #[setter]
    fn set_learning_rate(&self, factor: f32) -> PyResult<()> {
        self.edit_param(|param| param.learning_rate = factor)
    }

    /// Its own regulariser: `("l2", coefficient)`, `("l1", coefficient)` or `None`.
    #[getter]
    fn regularizer(&self) -> PyResult<Option<Penalty>> {
        let regularizer =
            self.read(|var| var.param.as_ref().and_then(|param| param.regularizer))?;
        Ok(regularizer.map(|regularizer| match regularizer {
            Regularizer::L1(coeff) => ("l1".to_owned(), coeff),
            Regularizer::L2(coeff) => ("l2".to_owned(), coeff),
        }))
    }

    #[setter]
    fn set_regularizer(&self, penalty: Option<Penalty>) -> PyResult<()> {
        let regularizer = penalty.map(penalty_of).transpose()?;
        self.edit_param(|param| param.regularizer = regularizer)
    }

    /// Whether gradient clipping includes it.
    #[getter]
    fn need_clip(&self) -> PyResult<bool> {
        self.read(|var| var.param.as_ref().is_none_or(|param| param.need_clip))
    }

    #[setter]
    fn set_need_clip(&self, need_clip: bool) -> PyResult<()> {
        self.edit_param(|param| param.need_clip = need_clip)
    }

    /// The declaration as text.
    #[pyo3(signature = (throw_on_error=true, with_details=false))]
    fn to_string(&self, throw_on_error: bool, with_details: bool) -> PyResult<String> {
        let _ = (throw_on_error, with_details);
        let mut program = ir::Program::new();
        let var = self.read(Var::clone)?;
        program.global_mut().add_var(var);
        let text = program.to_string();
        let line = text.lines().find(|line| line.contains(" : "));
        Ok(line.unwrap_or_default().trim().to_owned())
    }

    fn __str__(&self) -> PyResult<String> {
        self.to_string(true, false)
    }

    fn __repr__(&self) -> PyResult<String> {
        self.to_string(true, false)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Variable>().is_ok_and(|other| {
            let other = other.get();
            other.name == self.name && other.program().is(self.program())
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.held)
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (self.program().get().handle.id(), &self.name).hash(&mut hasher);
        hasher.finish()
    }
}
