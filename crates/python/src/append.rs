//! Appends an op to a program: what `_core.ops.<type>` does when an input is a static variable.

use bireme_engine::graph::infer_into_block;
use bireme_engine::ir::{self, Attr, Block, Op, Param, Var};
use bireme_engine::op::OpDef;
use bireme_engine::tensor::Tensor;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::context;
use crate::error::to_py;
use crate::program::Program;
use crate::site::site;
use crate::variable::Variable;

/// What an op that is appended reads, or writes where it exists.
pub(crate) enum Operand<'a, 'py> {
    /// A variable of a program.
    Variable(&'a Bound<'py, Variable>),
    /// An eager tensor: it becomes a persistable variable of the program, with a copy of its value
    /// in the current scope.
    Eager {
        /// The name of the variable.
        name: &'a str,
        /// The value.
        value: &'a Tensor,
        /// Facts of a parameter; `None` for a constant.
        param: Option<Param>,
    },
}

impl Operand<'_, '_> {
    fn name(&self) -> &str {
        match self {
            Operand::Variable(variable) => &variable.get().name,
            Operand::Eager { name, .. } => name,
        }
    }
}

/// What to append.
pub(crate) struct Append<'a, 'py> {
    /// The op.
    pub(crate) def: &'static OpDef,
    /// Variables read, by slot.
    pub(crate) inputs: Vec<(&'a str, Vec<Operand<'a, 'py>>)>,
    /// Attributes, already of their declared types.
    pub(crate) attrs: Vec<(&'a str, Attr)>,
    /// Output slots that get new variables, and how many.
    pub(crate) outputs: Vec<(&'a str, usize)>,
    /// Output slots that write variables which exist.
    pub(crate) into: Vec<(&'a str, Vec<Operand<'a, 'py>>)>,
    /// The layer that names new variables (`fc_0` gives `fc_0.tmp_0`); a new one of the op's type
    /// when not given.
    pub(crate) layer: Option<&'a str>,
    /// A variable whose program an op without variables goes to; else the default main program.
    pub(crate) beside: Option<&'a Bound<'py, Variable>>,
}

/// Appends an op to the program of its first variable, or to the default main program, and returns
/// its new variables, slot by slot.
pub(crate) fn append_op(py: Python<'_>, append: Append<'_, '_>) -> PyResult<Vec<Variable>> {
    let program = program_of(py, &append)?;
    let program = program.bind(py);
    register(py, program.get(), &append)?;
    let names = context::names(py)?;
    let at = program.get().current();
    // In no block: one may be written from another, and their gradients lie side by side.
    let taken = |name: &str| {
        let declares = |block: &Block| block.var(name).is_some();
        program.get().handle.read(|program| program.blocks.iter().any(declares))
    };
    // A generator that was switched starts again at 0, where the program may have names already.
    let fresh = |prefix: &str| loop {
        let name = names.unique(prefix);
        if !taken(&name) {
            return name;
        }
    };
    let layer = match append.layer {
        Some(layer) => layer.to_owned(),
        None if append.outputs.is_empty() => String::new(),
        None => names.unique(append.def.name),
    };
    let mut op = Op::new(append.def.name);
    for (slot, operands) in &append.inputs {
        op = op.input(slot, operands.iter().map(Operand::name));
    }
    for (name, attr) in append.attrs {
        op.attrs.insert(name.to_owned(), attr);
    }
    for (slot, operands) in &append.into {
        op = op.output(slot, operands.iter().map(Operand::name));
    }
    let mut made = Vec::new();
    for (slot, count) in &append.outputs {
        let new: Vec<String> = (0..*count).map(|_| fresh(&format!("{layer}.tmp"))).collect();
        made.extend(new.iter().cloned());
        op = op.output(slot, new);
    }
    op.attrs.entry("op_role".to_owned()).or_insert(Attr::Int(0));
    context::mark_device(&mut op);
    op.site = site(py);
    let appended = program.get().handle.edit(|program| {
        infer_into_block(program, at, &op)?;
        stop_gradients(program, at, &op);
        program.blocks[at].ops.push(op);
        Ok(())
    });
    appended.map_err(to_py)?;
    Ok(made.into_iter().map(|name| Variable::new(program, at, name)).collect())
}

/// Gradients stop at the outputs of an op of block `at` when they stop at all its inputs, as in Paddle. A variable of a
/// block around it passes gradients as soon as something is written to it that does.
pub(crate) fn stop_gradients(program: &mut ir::Program, at: usize, op: &Op) {
    let stopped = |name: &String| program.find_var(at, name).is_none_or(|var| var.stop_gradient);
    let stops = op.input_vars().all(stopped);
    for name in op.output_vars() {
        let read = op.input_vars().any(|input| input == name);
        if let Some(var) = program.blocks[at].vars.get_mut(name) {
            if var.kind == ir::VarKind::LodTensorArray {
                // Gradients go to whatever else is written into it.
                var.stop_gradient &= stops;
            } else if !var.persistable && !read {
                var.stop_gradient = stops;
            }
        } else if !stops {
            let declares = |block: &&mut Block| block.var(name).is_some();
            if let Some(block) = program.blocks[..at].iter_mut().rev().find(declares)
                && let Some(var) = block.vars.get_mut(name).filter(|var| !var.persistable)
            {
                var.stop_gradient = false;
            }
        }
    }
}

fn program_of(py: Python<'_>, append: &Append<'_, '_>) -> PyResult<Py<Program>> {
    let operands = append.inputs.iter().chain(&append.into).flat_map(|(_, operands)| operands);
    let variables = operands.filter_map(|operand| match operand {
        Operand::Variable(variable) => Some(*variable),
        Operand::Eager { .. } => None,
    });
    let mut variables = variables.chain(append.beside);
    let Some(first) = variables.next() else {
        return context::default_main_program(py);
    };
    let program = &first.get().program();
    match variables.find(|other| !other.get().program().is(program)) {
        None => Ok(program.clone_ref(py)),
        Some(other) => Err(PyValueError::new_err(format!(
            "op `{}`: `{}` and `{}` belong to different programs: build both under one \
             `program_guard`",
            append.def.name,
            first.get().name,
            other.get().name
        ))),
    }
}

/// Declares the eager tensors that the op reads or writes, with their values in the current scope.
fn register(py: Python<'_>, program: &Program, append: &Append<'_, '_>) -> PyResult<()> {
    let operands = append.inputs.iter().chain(&append.into).flat_map(|(_, operands)| operands);
    for operand in operands {
        let Operand::Eager { name, value, param } = operand else { continue };
        if program.handle.read(|program| program.global().var(name).is_some()) {
            continue;
        }
        let shape: Vec<i64> = value.dims().iter().map(|dim| *dim as i64).collect();
        let mut var = Var::tensor(*name, value.dtype(), shape);
        var.persistable = true;
        var.stop_gradient = param.as_ref().is_none_or(|param| !param.trainable);
        var.param.clone_from(param);
        context::global_scope(py)?.get().engine.try_set(name, value).map_err(to_py)?;
        program.handle.edit(|program| {
            program.global_mut().add_var(var);
        });
    }
    Ok(())
}
