//! `Program`: a handle to a program of the engine.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use bireme_engine::catalog::name_all_inputs;
use bireme_engine::graph::ProgramHandle;
use bireme_engine::op::OpDef;
use bireme_engine::{ir, ops};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::block::Block;
use crate::error::to_py;
use crate::session::session;
use crate::variable::Variable;

/// A computation: blocks of ops over variables.
///
/// >>> program = paddle.static.Program()
/// >>> program.random_seed = 7
/// >>> program.num_blocks
/// 1
#[pyclass(frozen, dict, weakref, subclass, module = "bireme._core")]
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) handle: ProgramHandle,
    /// Variables that were declared as data; programs themselves do not say.
    data: Mutex<HashSet<String>>,
    /// The blocks that are being built, the innermost last; the first block when there are none.
    building: Mutex<Vec<usize>>,
}

impl Program {
    pub(crate) fn of(program: ir::Program) -> Program {
        let checked = program.list_vars().filter(|var| var.need_check_feed);
        let data = Mutex::new(checked.map(|var| var.name.clone()).collect());
        Program { handle: ProgramHandle::new(program), data, building: Mutex::default() }
    }

    /// A program made from this one; what is data here is data there.
    fn derived(&self, program: ir::Program) -> Program {
        let derived = Program::of(program);
        let mine = self.data.lock().unwrap_or_else(PoisonError::into_inner).clone();
        derived.data.lock().unwrap_or_else(PoisonError::into_inner).extend(mine);
        derived
    }

    /// The number of the block that ops are appended to.
    pub(crate) fn current(&self) -> usize {
        let building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        building.last().copied().unwrap_or(0)
    }

    pub(crate) fn mark_data(&self, name: &str) {
        self.data.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    pub(crate) fn is_data(&self, name: &str) -> bool {
        self.data.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    fn variables(program: &Bound<'_, Program>, keep: impl Fn(&ir::Var) -> bool) -> Vec<Variable> {
        let names: Vec<(usize, String)> = program.get().handle.read(|inner| {
            let vars = inner.blocks.iter().flat_map(|b| b.vars.values().map(move |v| (b.idx, v)));
            vars.filter(|(_, var)| keep(var)).map(|(idx, var)| (idx, var.name.clone())).collect()
        });
        names.into_iter().map(|(idx, name)| Variable::new(program, idx, name)).collect()
    }
}

#[pymethods]
impl Program {
    /// An empty program, whose random numbers start from the seed that was last set.
    #[new]
    fn new() -> Program {
        let program = Program::default();
        program.handle.edit(|inner| inner.random_seed = session().seed());
        program
    }

    /// The first block.
    fn global_block(slf: &Bound<'_, Program>) -> Block {
        Block::new(slf, 0)
    }

    /// Block `index`.
    fn block(slf: &Bound<'_, Program>, index: usize) -> PyResult<Block> {
        let count = slf.get().num_blocks();
        if index >= count {
            let text = format!("the program has {count} blocks, so there is no block {index}");
            return Err(pyo3::exceptions::PyIndexError::new_err(text));
        }
        Ok(Block::new(slf, index))
    }

    /// The block that ops are appended to.
    fn current_block(slf: &Bound<'_, Program>) -> Block {
        Block::new(slf, slf.get().current())
    }

    /// Adds a block inside of the current one, and makes it the current one.
    fn _create_block(slf: &Bound<'_, Program>) -> Block {
        let program = slf.get();
        let parent = program.current();
        let idx = program.handle.edit(|inner| inner.append_block(parent).idx);
        program.building.lock().unwrap_or_else(PoisonError::into_inner).push(idx);
        Block::new(slf, idx)
    }

    /// Makes block `idx` the current one.
    fn _enter_block(&self, idx: usize) -> PyResult<()> {
        if idx >= self.num_blocks() {
            return Err(pyo3::exceptions::PyIndexError::new_err(format!(
                "there is no block {idx}"
            )));
        }
        self.building.lock().unwrap_or_else(PoisonError::into_inner).push(idx);
        Ok(())
    }

    /// Makes the block around the current one the current one again.
    fn _rollback(&self) {
        self.building.lock().unwrap_or_else(PoisonError::into_inner).pop();
    }

    #[getter]
    fn num_blocks(&self) -> usize {
        self.handle.read(|program| program.blocks.len())
    }

    #[getter]
    fn blocks(slf: &Bound<'_, Program>) -> Vec<Block> {
        (0..slf.get().num_blocks()).map(|index| Block::new(slf, index)).collect()
    }

    /// Takes over the blocks of another program: Paddle rewrites programs in place.
    fn _replace(&self, other: &Bound<'_, Program>) {
        let new = other.get().handle.read(Clone::clone);
        let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        data.extend(
            other.get().data.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned(),
        );
        self.handle.edit(|program| *program = new);
    }

    /// A number that rises with every change.
    #[getter]
    fn _version(&self) -> u64 {
        self.handle.version()
    }

    /// A copy; for testing, without gradients and updates and with ops set to testing.
    #[pyo3(signature = (for_test=false))]
    fn clone(&self, for_test: bool) -> Program {
        let takes_is_test =
            |def: &&OpDef| def.signature.attrs.iter().any(|attr| attr.name == "is_test");
        let copy = self.handle.read(|program| {
            if !for_test {
                return program.clone();
            }
            let kinds: Vec<&str> = ops::all().filter(takes_is_test).map(|def| def.name).collect();
            program.clone_for_test_with(&kinds)
        });
        self.derived(copy)
    }

    /// Every variable, in order of declaration.
    fn list_vars(slf: &Bound<'_, Program>) -> Vec<Variable> {
        Program::variables(slf, |_| true)
    }

    /// Every parameter, in order of creation.
    fn all_parameters(slf: &Bound<'_, Program>) -> Vec<Variable> {
        Program::variables(slf, ir::Var::is_parameter)
    }

    #[getter]
    fn random_seed(&self) -> u64 {
        self.handle.read(|program| program.random_seed)
    }

    #[setter]
    fn set_random_seed(&self, seed: u64) {
        self.handle.reseed(seed);
    }

    /// The program as text.
    #[pyo3(signature = (throw_on_error=true, with_details=false))]
    fn to_string(&self, throw_on_error: bool, with_details: bool) -> String {
        let _ = (throw_on_error, with_details);
        self.handle.read(ToString::to_string)
    }

    fn __str__(&self) -> String {
        self.handle.read(ToString::to_string)
    }

    /// The program in Paddle's protobuf form.
    fn serialize<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut program = self.handle.read(ir::Program::clone);
        name_all_inputs(&mut program);
        PyBytes::new(py, &program.to_bytes())
    }

    /// Reads a program in Paddle's protobuf form.
    #[staticmethod]
    fn parse_from_string(bytes: &[u8]) -> PyResult<Program> {
        let program = ir::Program::from_bytes(bytes).map_err(|error| to_py(error.into()))?;
        Ok(Program::of(program))
    }

    /// What `targets` need and nothing else.
    fn prune(&self, targets: Vec<String>) -> PyResult<Program> {
        self.prune_with_input(Vec::new(), targets)
    }

    /// What `targets` need when `feeds` are given.
    fn prune_with_input(&self, feeds: Vec<String>, targets: Vec<String>) -> PyResult<Program> {
        let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let pruned = self.handle.read(|program| program.prune(&feeds, &targets));
        Ok(self.derived(pruned.map_err(|error| to_py(error.into()))?))
    }
}
