//! The ops of a program in one list: those of a `conditional_block` stand where it stands, each with
//! the condition as its *guard*. A guarded op runs in the steps in which its guard is true.

use std::borrow::Cow;
use std::collections::HashSet;

use bireme_ir::{Attr, Op, Program};

use crate::{Error, Result};

/// The attribute that names the guard; no program has it, since no op declares it.
pub(super) const GUARD: &str = "@guard";

/// The variable that says whether `op` runs.
pub(super) fn guard(op: &Op) -> Option<&str> {
    match op.attrs.get(GUARD) {
        Some(Attr::String(guard)) => Some(guard),
        _ => None,
    }
}

/// All ops of a step.
///
/// # Errors
/// When a condition holds what cannot run inside one.
pub(super) fn all_ops(program: &Program) -> Result<Cow<'_, [Op]>> {
    let ops = &program.global().ops;
    if !ops.iter().any(|op| op.kind == "conditional_block") {
        return Ok(Cow::Borrowed(ops));
    }
    let mut all = Vec::with_capacity(ops.len());
    for op in ops {
        if op.kind == "conditional_block" {
            all.extend(guarded(program, op).map_err(|error| error.in_op(op))?);
        } else {
            all.push(op.clone());
        }
    }
    Ok(Cow::Owned(all))
}

fn guarded(program: &Program, op: &Op) -> Result<Vec<Op>> {
    let [condition] = op.inputs_of("Cond") else {
        return Err(Error::kernel("takes one condition"));
    };
    let block = match op.attrs.get("sub_block") {
        Some(Attr::Block(block)) => usize::try_from(*block).ok(),
        _ => None,
    };
    let block = block.and_then(|block| program.blocks.get(block));
    let block = block.ok_or_else(|| Error::kernel("has no block"))?;
    let mut own = HashSet::new();
    let mut ops = Vec::with_capacity(block.ops.len());
    for inner in &block.ops {
        if inner.kind == "conditional_block" {
            return Err(Error::kernel("a condition inside a condition is not in this version"));
        }
        own.extend(inner.output_vars().map(String::as_str));
        ops.push(inner.clone().attr(GUARD, condition.as_str()));
    }
    let seen = program.global().ops.iter().flat_map(|op| op.input_vars());
    for var in seen.filter(|var| own.contains(var.as_str())) {
        if program.global().var(var).is_none_or(|var| !var.persistable) {
            return Err(Error::kernel(format!(
                "`{var}` is read outside the block that writes it, and would have no value when the \
                 condition is false: only persistable variables can be used so"
            )));
        }
    }
    Ok(ops)
}
