//! `Operator`: one op of a program, by its place.

use bireme_engine::ir::{Attr, Op, Program as IrProgram};
use bireme_engine::ops;
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use crate::block::Block;
use crate::convert::{attr_object, attr_of};
use crate::program::Program;

/// One op of a block.
#[pyclass(frozen, weakref, module = "bireme._core")]
pub(crate) struct Operator {
    program: Py<Program>,
    block: usize,
    index: usize,
}

impl Operator {
    pub(crate) fn new(program: &Bound<'_, Program>, block: usize, index: usize) -> Operator {
        Operator { program: program.clone().unbind(), block, index }
    }

    fn read<T>(&self, look: impl FnOnce(&Op) -> T) -> PyResult<T> {
        let found = self.program.get().handle.read(|program| {
            let op = program.blocks.get(self.block).and_then(|block| block.ops.get(self.index));
            op.map(look)
        });
        found.ok_or_else(|| PyIndexError::new_err("the op is no longer part of its program"))
    }

    /// The op's own value of an attribute, or its default.
    fn value(&self, name: &str) -> PyResult<Option<Attr>> {
        self.read(|op| {
            op.attrs.get(name).cloned().or_else(|| {
                let attrs = ops::find(&op.kind).ok()?.signature.attrs;
                attrs.iter().find(|attr| attr.name == name)?.default.value()
            })
        })
    }
}

#[pymethods]
impl Operator {
    #[getter]
    fn r#type(&self) -> PyResult<String> {
        self.read(|op| op.kind.clone())
    }

    #[getter]
    fn idx(&self) -> usize {
        self.index
    }

    #[getter]
    fn block(&self, py: Python<'_>) -> Block {
        Block::new(self.program.bind(py), self.block)
    }

    /// The variables in input slot `slot`.
    fn input(&self, slot: &str) -> PyResult<Vec<String>> {
        self.read(|op| op.inputs_of(slot).to_vec())
    }

    /// The variables in output slot `slot`.
    fn output(&self, slot: &str) -> PyResult<Vec<String>> {
        self.read(|op| op.outputs_of(slot).to_vec())
    }

    #[getter]
    fn input_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.inputs.keys().cloned().collect())
    }

    #[getter]
    fn output_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.outputs.keys().cloned().collect())
    }

    #[getter]
    fn input_arg_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.input_vars().cloned().collect())
    }

    #[getter]
    fn output_arg_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.output_vars().cloned().collect())
    }

    #[getter]
    fn attr_names(&self) -> PyResult<Vec<String>> {
        self.read(|op| op.attrs.keys().cloned().collect())
    }

    /// The line of code that made the op.
    #[getter]
    fn site(&self) -> PyResult<Option<String>> {
        self.read(|op| op.site.clone())
    }

    /// The value of attribute `name`.
    fn attr(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        match self.value(name)? {
            Some(attr) => attr_object(py, &attr),
            None => {
                let kind = self.r#type()?;
                Err(PyKeyError::new_err(format!("op `{kind}` has no attribute `{name}`")))
            }
        }
    }

    /// Whether the op has attribute `name`.
    fn has_attr(&self, name: &str) -> PyResult<bool> {
        Ok(self.value(name)?.is_some())
    }

    /// The attributes by name.
    fn all_attrs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, attr) in self.read(|op| op.attrs.clone())? {
            all.set_item(name, attr_object(py, &attr)?)?;
        }
        Ok(all)
    }

    /// Changes attribute `name`.
    fn _set_attr(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let kind = self.r#type()?;
        let declared = ops::find(&kind).ok().and_then(|def| {
            def.signature.attrs.iter().find(|attr| attr.name == name).map(|a| a.default.kind())
        });
        let attr = attr_of(value, name, declared)?;
        self.program.get().handle.edit(|program| {
            program.blocks[self.block].ops[self.index].attrs.insert(name.to_owned(), attr);
        });
        Ok(())
    }

    fn __str__(&self) -> PyResult<String> {
        // A program of this op alone: its one line with an op on it.
        let op = self.read(Op::clone)?;
        let mut program = IrProgram::new();
        program.global_mut().ops.push(op);
        let text = program.to_string();
        Ok(text.lines().find(|line| line.contains(" = ")).unwrap_or_default().trim().to_owned())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.program)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Operator>().is_ok_and(|other| {
            let other = other.get();
            other.program.is(&self.program)
                && (other.block, other.index) == (self.block, self.index)
        })
    }

    fn __hash__(&self) -> u64 {
        self.program.get().handle.id().wrapping_mul(31).wrapping_add(self.index as u64)
    }
}
