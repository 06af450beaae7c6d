//! A program under construction: the main program, its startup program, and fresh names.
//!
//! A [`Graph`] is a handle; clones build the same programs. A [`Variable`] knows its graph, so that
//! layers read like the formulas they stand for. Names are Paddle's (`fc_0.w_0`, `fc_0.tmp_1`).

mod handle;
mod names;

use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_ir::{Block, DType, EMPTY_VAR, Op, OpRole, Program, Var};

pub use handle::ProgramHandle;
pub use names::Names;

use crate::op::{Infer, Meta, OpView};
use crate::{Error, Result};

/// A main program and its startup program, being built.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    main: ProgramHandle,
    startup: ProgramHandle,
    names: Names,
    /// The role that appended ops get.
    role: Arc<AtomicI32>,
    /// The device that appended ops are marked with; none when empty.
    device: Arc<Mutex<String>>,
    /// The line of user code that appended ops are attributed to, when the caller's is not it.
    site: Option<Arc<str>>,
}

/// A variable of a graph.
#[derive(Clone, Debug)]
pub struct Variable {
    graph: Graph,
    name: String,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// A graph that builds programs which exist already.
    pub fn from_parts(main: ProgramHandle, startup: ProgramHandle, names: Names) -> Graph {
        Graph { main, startup, names, ..Graph::default() }
    }

    /// The same graph, whose ops are attributed to `site` (`file:line`) instead of the Rust line
    /// that appends them; for front ends in other languages.
    pub fn at_site(mut self, site: &str) -> Graph {
        self.site = Some(site.into());
        self
    }

    /// A copy of the main program as it is now.
    pub fn main(&self) -> Program {
        self.main.program()
    }

    /// A copy of the startup program as it is now.
    pub fn startup(&self) -> Program {
        self.startup.program()
    }

    /// The main program itself.
    pub fn main_handle(&self) -> &ProgramHandle {
        &self.main
    }

    /// The startup program itself.
    pub fn startup_handle(&self) -> &ProgramHandle {
        &self.startup
    }

    /// Changes the main program directly; for passes that rewrite it (autodiff, transpilers).
    pub fn edit_main<T>(&self, edit: impl FnOnce(&mut Program) -> T) -> T {
        self.main.edit(edit)
    }

    /// Changes the startup program directly.
    pub fn edit_startup<T>(&self, edit: impl FnOnce(&mut Program) -> T) -> T {
        self.startup.edit(edit)
    }

    /// The seed of random ops that have none of their own, in both programs.
    pub fn set_random_seed(&self, seed: u64) {
        self.main.reseed(seed);
        self.startup.reseed(seed);
    }

    /// A fresh name: `fc` gives `fc_0`, then `fc_1`.
    pub fn unique_name(&self, prefix: &str) -> String {
        self.names.unique(prefix)
    }

    /// A handle to the variable `name` of the main program.
    ///
    /// # Errors
    /// When it is not declared.
    pub fn variable(&self, name: &str) -> Result<Variable> {
        if self.main.read(|main| main.global().var(name).is_none()) {
            return Err(Error::kernel(format!("the program has no variable `{name}`")));
        }
        Ok(Variable { graph: self.clone(), name: name.to_owned() })
    }

    /// Declares `var` in the main program.
    pub fn declare(&self, var: Var) -> Variable {
        let name = var.name.clone();
        self.main.edit(|main| {
            main.global_mut().add_var(var);
        });
        Variable { graph: self.clone(), name }
    }

    /// Declares a fresh temporary of layer `layer` (`fc_0` gives `fc_0.tmp_0`); its shape comes
    /// from the op that writes it.
    pub fn temporary(&self, layer: &str) -> Variable {
        let name = self.unique_name(&format!("{layer}.tmp"));
        self.declare(Var::tensor(name, DType::F32, []))
    }

    /// Declares a persistable variable in both programs and appends `init`, the op that gives it
    /// its first value, to the startup program; one that it initialises already is left as it is,
    /// for several main programs may share a startup program.
    #[track_caller]
    pub fn persistable(&self, var: Var, init: Op) -> Variable {
        let init = self.located(init, Location::caller());
        self.startup.edit(|startup| {
            let block = startup.global_mut();
            let writes = |op: &Op| op.output_vars().any(|name| *name == var.name);
            if block.var(&var.name).is_none() || !block.ops.iter().any(writes) {
                block.add_var(var.clone());
                block.ops.push(init);
            }
        });
        self.declare(var)
    }

    /// Appends `op` to the main program, and gives its outputs the shapes of its shape rule.
    /// Outputs that are not declared yet become temporaries.
    ///
    /// # Errors
    /// When there is no such op, an input is not declared, or the inputs do not fit.
    #[track_caller]
    pub fn append_op(&self, op: Op) -> Result<()> {
        let op = self.located(op, Location::caller());
        let role = OpRole(self.role.load(Ordering::Relaxed));
        let op = if op.attrs.contains_key("op_role") { op } else { op.role(role) };
        let device = self.device().clone();
        let op = if device.is_empty() { op } else { op.attr("op_device", device) };
        self.main.edit(|main| {
            let block = main.global_mut();
            infer_into(block, &op)?;
            block.ops.push(op);
            Ok(())
        })
    }

    /// Runs `build` with `role` as the role of the ops it appends.
    ///
    /// # Errors
    /// What `build` returns.
    pub fn with_role<T>(&self, role: OpRole, build: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = self.role.swap(role.0, Ordering::Relaxed);
        let built = build();
        self.role.store(before, Ordering::Relaxed);
        built
    }

    /// Marks the ops that `build` appends with `device` (`gpu`, `cpu`): an executor runs them where
    /// it is, but jobs with heter workers are cut where the device changes.
    ///
    /// # Errors
    /// What `build` returns.
    pub fn with_device<T>(&self, device: &str, build: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = std::mem::replace(&mut *self.device(), device.to_owned());
        let built = build();
        *self.device() = before;
        built
    }

    fn device(&self) -> MutexGuard<'_, String> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn located(&self, mut op: Op, location: &Location<'_>) -> Op {
        op.site.get_or_insert_with(|| match &self.site {
            Some(site) => site.to_string(),
            None => format!("{}:{}", location.file(), location.line()),
        });
        op
    }
}

impl Variable {
    /// Its graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its declaration.
    pub fn var(&self) -> Var {
        let declared = |main: &Program| main.global().var(&self.name).cloned();
        self.graph.main.read(declared).expect("a handle's variable stays declared")
    }

    /// Its shape; -1 where only data will tell.
    pub fn shape(&self) -> Vec<i64> {
        self.var().shape
    }

    /// Its element type.
    pub fn dtype(&self) -> DType {
        self.var().dtype
    }

    /// Stops (or lets pass) gradients at this variable.
    pub fn set_stop_gradient(&self, stop: bool) {
        self.graph.edit_main(|main| {
            if let Some(var) = main.global_mut().vars.get_mut(&self.name) {
                var.stop_gradient = stop;
            }
        });
    }
}

/// Declares the outputs of `op` in `block` with the shapes of its shape rule.
///
/// # Errors
/// When there is no such op, an input is not declared, or the inputs do not fit.
pub fn infer_into(block: &mut Block, op: &Op) -> Result<()> {
    infer_among(block, &|_| None, op)
}

/// Declares the outputs of `op` in block `idx` of `program`, as [`infer_into`]; what is declared in a block around it
/// stays there.
///
/// # Errors
/// As there.
pub fn infer_into_block(program: &mut Program, idx: usize, op: &Op) -> Result<()> {
    if idx == 0 {
        return infer_into(program.global_mut(), op);
    }
    let parent = program.blocks[idx].parent.unwrap_or(0);
    let mut block = std::mem::replace(&mut program.blocks[idx], Block::new(idx, Some(parent)));
    let mut outer: HashMap<String, Var> = HashMap::new();
    for name in op.input_vars().chain(op.output_vars()) {
        if let Some(var) = program.find_var(parent, name) {
            outer.insert(name.clone(), var.clone());
        }
    }
    let inferred = infer_among(&mut block, &|name| outer.get(name).cloned(), op);
    program.blocks[idx] = block;
    inferred
}

/// As [`infer_into`], where `around` finds what blocks around `block` declare.
pub(crate) fn infer_among(
    block: &mut Block,
    around: &dyn Fn(&str) -> Option<Var>,
    op: &Op,
) -> Result<()> {
    let in_op = |error: Error| error.in_op(op);
    let view = OpView::new(op).map_err(in_op)?;
    let mut inputs = Vec::new();
    for name in view.flat_inputs() {
        let var = block.var(name).cloned().or_else(|| around(name)).ok_or_else(|| {
            in_op(Error::kernel(format!("input `{name}` is not declared in the program")))
        })?;
        inputs.push(Meta::of(&var));
    }
    if view.def.flow.is_some_and(|flow| flow.gradient.is_some()) {
        return declared_before(&view, block, around).map_err(in_op);
    }
    let outputs = Infer::run(&view, &inputs).map_err(in_op)?;
    for (name, meta) in view.flat_outputs().zip(outputs) {
        if name == EMPTY_VAR || (block.var(name).is_none() && around(name).is_some()) {
            continue;
        }
        let var =
            block.vars.entry(name.clone()).or_insert_with(|| Var::tensor(name, meta.dtype, []));
        // A parameter's declaration is the user's; an op that updates it does not change it.
        if !var.persistable {
            (var.kind, var.dtype, var.shape) = (meta.kind, meta.dtype, meta.declared_dims());
            var.lod_level = meta.lod_level;
        }
    }
    Ok(())
}

/// What an op writes by running a block has no shape rule: who makes the block declares it.
fn declared_before(
    view: &OpView<'_>,
    block: &Block,
    around: &dyn Fn(&str) -> Option<Var>,
) -> Result<()> {
    match view.flat_outputs().find(|name| block.var(name).is_none() && around(name).is_none()) {
        None => Ok(()),
        Some(name) => Err(Error::kernel(format!(
            "output `{name}` must be declared before: its shape is what the block makes of it"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_ops_shape_their_outputs() {
        let graph = Graph::new();
        graph.declare(Var::tensor("x", DType::F32, [-1, 13]));
        graph.declare(Var::parameter("w", DType::F32, [13, 4]));
        graph.declare(Var::parameter("v", DType::F32, [5, 4]));
        let layer = graph.unique_name("fc");
        let out = graph.temporary(&layer);
        let op = Op::new("mul").input("X", ["x"]).input("Y", ["w"]).output("Out", [out.name()]);
        graph.append_op(op.clone()).unwrap();
        assert_eq!((out.name(), out.shape()), ("fc_0.tmp_0", vec![-1, 4]));
        assert!(graph.main().global().ops[0].site.as_ref().unwrap().contains("graph.rs"));
        let empty = graph.append_op(Op::new("concat").output("Out", ["y"])).unwrap_err();
        assert!(empty.to_string().contains("input slot `X` is empty"), "{empty}");
        let bad = graph.append_op(op.input("Y", ["v"])).unwrap_err().to_string();
        assert!(bad.contains("graph.rs") && bad.contains("has 13 columns"), "{bad}");
    }
}
