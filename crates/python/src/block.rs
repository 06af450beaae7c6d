//! `Block`: the variables and ops of one block of a program.

use bireme_engine::DType;
use bireme_engine::graph::infer_into_block;
use bireme_engine::ir::{self, Op, Slots, Var};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use pyo3::{PyTraverseError, PyVisit};

use crate::append::stop_gradients;
use crate::context;
use crate::convert::{attr_of, dtype_of};
use crate::error::to_py;
use crate::operator::Operator;
use crate::parameter;
use crate::program::Program;
use crate::site::site;
use crate::variable::Variable;

/// One block of a program.
#[pyclass(frozen, weakref, module = "bireme._core")]
pub(crate) struct Block {
    program: Py<Program>,
    #[pyo3(get)]
    idx: usize,
}

impl Block {
    pub(crate) fn new(program: &Bound<'_, Program>, idx: usize) -> Block {
        Block { program: program.clone().unbind(), idx }
    }

    fn read<T>(&self, look: impl FnOnce(&ir::Block) -> T) -> T {
        // Blocks are only added, so one that a handle was made for stays.
        self.program.get().handle.read(|program| look(&program.blocks[self.idx]))
    }

    /// The first `_generated_var_<number>` that the block does not have yet: scripts reset metrics
    /// by these names, so they count from zero in each program, as Paddle's do.
    fn generated_name(&self) -> String {
        self.read(|block| {
            (0usize..)
                .map(|number| format!("_generated_var_{number}"))
                .find(|name| block.var(name).is_none())
                .expect("a block does not have every name")
        })
    }

    fn variable(&self, py: Python<'_>, name: &str) -> Variable {
        Variable::new(self.program.bind(py), self.idx, name.to_owned())
    }

    fn names(&self, keep: impl Fn(&Var) -> bool) -> Vec<String> {
        self.read(|block| {
            block.vars.values().filter(|var| keep(var)).map(|var| var.name.clone()).collect()
        })
    }
}

#[pymethods]
impl Block {
    #[getter]
    fn program(&self, py: Python<'_>) -> Py<Program> {
        self.program.clone_ref(py)
    }

    #[getter]
    fn parent_idx(&self) -> i64 {
        self.read(|block| block.parent.map_or(-1, |parent| parent as i64))
    }

    /// The variables by name.
    #[getter]
    fn vars<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let vars = PyDict::new(py);
        for name in self.names(|_| true) {
            vars.set_item(&name, self.variable(py, &name))?;
        }
        Ok(vars)
    }

    /// The variable `name`.
    fn var(&self, py: Python<'_>, name: &str) -> PyResult<Variable> {
        if self.has_var(name) {
            return Ok(self.variable(py, name));
        }
        let nearest = self.read(|block| ir::nearest(name, block.vars.keys().map(String::as_str)));
        let hint = ir::did_you_mean(&nearest);
        Err(PyValueError::new_err(format!("block {} has no variable `{name}`{hint}", self.idx)))
    }

    /// Whether the block declares `name`.
    fn has_var(&self, name: &str) -> bool {
        self.read(|block| block.var(name).is_some())
    }

    /// The ops in the order they run.
    #[getter]
    fn ops(&self, py: Python<'_>) -> Vec<Operator> {
        let count = self.read(|block| block.ops.len());
        (0..count).map(|index| Operator::new(self.program.bind(py), self.idx, index)).collect()
    }

    /// The variables of blocks around it that it reads before it writes them, and those that it writes.
    fn _outside(&self) -> PyResult<(Vec<String>, Vec<String>)> {
        let find = |program: &ir::Program| bireme_engine::flow::outside(program, self.idx);
        self.program.get().handle.read(find).map_err(to_py)
    }

    /// The parameters in the order they were created.
    fn all_parameters(&self, py: Python<'_>) -> Vec<Variable> {
        let names = self.names(Var::is_parameter);
        names.iter().map(|name| self.variable(py, name)).collect()
    }

    /// Declares a variable; one that exists is returned as it is.
    #[pyo3(signature = (name=None, shape=None, dtype=None, lod_level=0, persistable=false,
                        stop_gradient=true, is_data=false, need_check_feed=None, r#type=None))]
    #[expect(clippy::too_many_arguments, reason = "Paddle's arguments")]
    fn create_var(
        &self,
        py: Python<'_>,
        name: Option<&str>,
        shape: Option<Vec<i64>>,
        dtype: Option<&Bound<'_, PyAny>>,
        lod_level: u32,
        persistable: bool,
        stop_gradient: bool,
        is_data: bool,
        need_check_feed: Option<bool>,
        r#type: Option<&str>,
    ) -> PyResult<Variable> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => self.generated_name(),
        };
        if self.has_var(&name) {
            return Ok(self.variable(py, &name));
        }
        let dtype = dtype.map_or(Ok(DType::F32), dtype_of)?;
        let mut var = Var::tensor(name.as_str(), dtype, parameter::shape_of(shape)?);
        (var.lod_level, var.persistable) = (lod_level, persistable);
        var.stop_gradient = stop_gradient;
        var.need_check_feed = need_check_feed.unwrap_or(is_data);
        if let Some(kind) = r#type {
            var.kind = ir::VarKind::from_name(kind)
                .ok_or_else(|| PyValueError::new_err(format!("no kind of variable `{kind}`")))?;
        }
        if is_data {
            self.program.get().mark_data(&name);
        }
        self.program.get().handle.edit(|program| {
            program.blocks[self.idx].add_var(var);
        });
        Ok(self.variable(py, &name))
    }

    /// Appends an op; its outputs get the shapes of its shape rule.
    #[pyo3(signature = (r#type, inputs=None, outputs=None, attrs=None))]
    fn append_op(
        &self,
        py: Python<'_>,
        r#type: &str,
        inputs: Option<&Bound<'_, PyDict>>,
        outputs: Option<&Bound<'_, PyDict>>,
        attrs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Operator> {
        let mut op = Op::new(r#type);
        (op.inputs, op.outputs) = (slots(inputs)?, slots(outputs)?);
        let declared = bireme_engine::ops::find(r#type).map_err(to_py)?.signature.attrs;
        for (name, value) in attrs.into_iter().flat_map(|attrs| attrs.iter()) {
            let name: String = name.extract()?;
            let spec = declared.iter().find(|spec| spec.name == name);
            let kind = spec.map(|spec| spec.default.kind());
            op.attrs.insert(name.clone(), attr_of(&value, &name, kind)?);
        }
        op.attrs.entry("op_role".to_owned()).or_insert(ir::Attr::Int(0));
        context::mark_device(&mut op);
        op.site = site(py);
        let appended = self.program.get().handle.edit(|program| {
            infer_into_block(program, self.idx, &op)?;
            stop_gradients(program, self.idx, &op);
            let ops = &mut program.blocks[self.idx].ops;
            ops.push(op);
            Ok(ops.len() - 1)
        });
        Ok(Operator::new(self.program.bind(py), self.idx, appended.map_err(to_py)?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.program)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Block>().is_ok_and(|other| {
            let other = other.get();
            other.idx == self.idx && other.program.is(&self.program)
        })
    }

    fn __hash__(&self) -> u64 {
        self.program.get().handle.id().wrapping_mul(31).wrapping_add(self.idx as u64)
    }

    fn __str__(&self) -> String {
        let program = self.program.get().handle.program();
        let block = ir::Block { idx: 0, parent: None, ..program.blocks[self.idx].clone() };
        ir::Program { blocks: vec![block].into(), ..ir::Program::new() }.to_string()
    }
}

/// Slots of an op from a dictionary of names, variables, or lists of them.
fn slots(given: Option<&Bound<'_, PyDict>>) -> PyResult<Slots> {
    let mut slots = Slots::new();
    for (slot, vars) in given.into_iter().flat_map(|given| given.iter()) {
        let slot: String = slot.extract()?;
        let names = if vars.is_none() {
            Vec::new()
        } else if is_variable(&vars) {
            vec![name_of(&vars)?]
        } else {
            vars.try_iter()?.map(|var| name_of(&var?)).collect::<PyResult<_>>()?
        };
        slots.insert(slot, names);
    }
    Ok(slots)
}

fn is_variable(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyString>() || value.is_instance_of::<Variable>()
}

/// The name that a text or a variable stands for.
pub(crate) fn name_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(variable) = value.cast::<Variable>() {
        return Ok(variable.get().name.clone());
    }
    value.extract::<String>().map_err(|_| {
        let given = value.get_type().name().map_or_else(|_| "?".to_owned(), |n| n.to_string());
        PyTypeError::new_err(format!("expected a variable or its name, given {given}"))
    })
}
