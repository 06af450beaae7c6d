//! Which variables need a gradient, and which ops lie on the way from them to the targets.

use std::collections::HashSet;

use bireme_ir::{Block, Op, VarKind};

use crate::op::{GradRule, OpDef};
use crate::{Error, Result, ops};

/// Where gradients are wanted.
pub(super) enum Roots<'a> {
    /// At every variable that no op computes and that does not stop gradients.
    Leaves,
    /// At these.
    Vars(HashSet<&'a str>),
}

/// The part of a block that a backward pass goes through.
pub(super) struct Path {
    /// Variables whose gradient is wanted: they depend on a root, and a target depends on them.
    pub(super) wanted: HashSet<String>,
    /// Ops to differentiate, by position in the block, last first.
    pub(super) ops: Vec<usize>,
}

impl Path {
    /// The path from `roots` to `targets`.
    ///
    /// # Errors
    /// When an op on it has no gradient, or two ops on it write the same variable.
    pub(super) fn find(
        block: &Block,
        targets: &[&str],
        roots: Roots<'_>,
        no_grad: &HashSet<&str>,
    ) -> Result<Path> {
        let needs = needs_gradient(block, &roots, no_grad);
        let mut path = Path { wanted: HashSet::new(), ops: Vec::new() };
        let reached = targets.iter().filter(|target| needs.contains(**target));
        path.wanted.extend(reached.map(|target| (*target).to_owned()));
        let mut written: HashSet<&str> = HashSet::new();
        for (index, op) in block.ops.iter().enumerate().rev() {
            let outputs: Vec<&String> =
                op.output_vars().filter(|out| path.wanted.contains(*out)).collect();
            let inputs: Vec<&String> =
                op.input_vars().filter(|var| needs.contains(var.as_str())).collect();
            // A parameter that an earlier optimizer updated is still a root, not a result.
            if outputs.is_empty() || inputs.is_empty() || writes_parameter(block, op, &outputs) {
                continue;
            }
            check_gradient(op)?;
            if let Some(var) =
                outputs.iter().find(|out| !written.insert(out) || inputs.contains(out))
            {
                return Err(Error::kernel(format!(
                    "`{var}` is written twice on the way to the loss, so its gradient has two \
                     meanings: give the second result a name of its own"
                ))
                .in_op(op));
            }
            path.wanted.extend(inputs.into_iter().cloned());
            path.ops.push(index);
        }
        Ok(path)
    }
}

fn writes_parameter(block: &Block, op: &Op, outputs: &[&String]) -> bool {
    let parameter = |name: &str| block.var(name).is_some_and(bireme_ir::Var::is_parameter);
    op.op_role().base() == bireme_ir::OpRole::OPTIMIZE && outputs.iter().any(|out| parameter(out))
}

/// Variables that depend smoothly on a root.
pub(super) fn needs_gradient<'b>(
    block: &'b Block,
    roots: &Roots<'_>,
    no_grad: &HashSet<&str>,
) -> HashSet<&'b str> {
    let open = |name: &str| {
        block.var(name).is_some_and(|var| {
            let tensor = var.kind.is_tensor() || var.kind == VarKind::LodTensorArray;
            let trainable = var.param.as_ref().is_none_or(|param| param.trainable);
            tensor && var.dtype.is_float() && trainable && !var.stop_gradient
        }) && !no_grad.contains(name)
    };
    let is_parameter = |name: &str| block.var(name).is_some_and(bireme_ir::Var::is_parameter);
    let mut needs: HashSet<&str> = HashSet::new();
    let mut computed: HashSet<&str> = HashSet::new();
    if let Roots::Vars(vars) = roots {
        let listed = block.vars.keys().filter(|name| vars.contains(name.as_str()) && open(name));
        needs.extend(listed.map(String::as_str));
    }
    for op in &block.ops {
        if matches!(roots, Roots::Leaves) {
            let leaf = |name: &&String| is_parameter(name) || !computed.contains(name.as_str());
            needs
                .extend(op.input_vars().filter(leaf).filter(|name| open(name)).map(String::as_str));
        }
        let depends = op.input_vars().any(|name| needs.contains(name.as_str()));
        let carries = depends && !is_constant(op);
        for name in op.output_vars() {
            computed.insert(name);
            if carries && open(name) {
                needs.insert(name);
            }
        }
    }
    needs
}

/// Whether the op's outputs do not change smoothly with its inputs, so that gradients end there.
fn is_constant(op: &Op) -> bool {
    let ruleless = ops::find(&op.kind).is_ok_and(|def| !has_rule(def));
    ruleless && !is_gradient(&op.kind)
}

/// Gradient ops are smooth, also those that have no rule of their own.
pub(crate) fn is_gradient(kind: &str) -> bool {
    // Paddle has `cross_entropy_grad2`, too.
    kind.contains("_grad")
}

/// Whether gradients go through ops of a kind.
fn has_rule(def: &OpDef) -> bool {
    !matches!(def.grad, GradRule::None) || def.flow.is_some_and(|flow| flow.gradient.is_some())
}

fn check_gradient(op: &Op) -> Result<()> {
    let def = ops::find(&op.kind).map_err(|error| error.in_op(op))?;
    if has_rule(def) {
        return Ok(());
    }
    Err(no_gradient_of(&op.kind).in_op(op))
}

/// The error of a loss that depends on an op without a gradient.
pub(crate) fn no_gradient_of(kind: &str) -> Error {
    let problem = match kind.split_once("_grad") {
        Some((forward, _)) => format!(
            "there is no gradient of a gradient for op `{forward}`, but the loss depends on it"
        ),
        None => format!("the gradient of `{kind}` is not defined, but the loss depends on it"),
    };
    Error::kernel(format!("{problem}; stop the gradient at one of its outputs if that is meant"))
}
