//! Control flow: ops that run a block of the program (`conditional_block`, `while`) and their gradients.
//!
//! To everybody else such an op is one op, with all that its block reads and writes in its slots (`complete`). Inside,
//! every variable is written once (`single`): a second write has a name of its own, so that the gradient can tell what
//! a variable was from what it became. The block runs op by op on values that are its own (`block`), for shapes may
//! change from one run to the next; what comes from around it is read where it lies. What the gradient will need of
//! each run is kept in a list (`forward`), and taken from there last run first (`backward`).

mod backward;
mod block;
mod complete;
mod forward;
mod shapes;
mod single;
mod wiring;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bireme_ir::{Attr, Op, Program};

pub use complete::outside;
pub(crate) use complete::{complete, empty_arrays, has_effect, is_empty_handed};
pub(crate) use shapes::infer;
pub(crate) use single::{Single, single_assignment};
pub(crate) use wiring::{Target, Wiring};

use crate::collective::Link;
use crate::op::{Flow, Kernel, OpView};
use crate::plan::Question;
use crate::remote::Remote;
use crate::{Error, Result};

/// Attribute of a completed op: what its block calls the variables in its slot of reads.
pub(crate) const INNER_INPUTS: &str = "inner_inputs";
/// Attribute of a completed op: what its block calls the variables in `Out`.
pub(crate) const INNER_OUTPUTS: &str = "inner_outputs";
/// Attribute of a completed op: what its block calls the condition.
pub(crate) const INNER_CONDITION: &str = "inner_condition";
/// Attribute of a completed op: the variables of its block that its gradient reads.
pub(crate) const KEPT: &str = "kept";

/// What the ops of blocks run with.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) program: Program,
    pub(crate) seed: u64,
    pub(crate) remote: Option<Arc<dyn Remote>>,
    pub(crate) link: Option<Arc<Link>>,
    /// Whether a running step should stop.
    pub(crate) question: Option<Question>,
}

/// What runs a completed op that runs a block.
///
/// # Errors
/// When its block holds what cannot run, or reads a variable that has no value.
pub(crate) fn kernel(cx: &Context, view: &OpView<'_>, flow: &'static Flow) -> Result<Kernel> {
    match flow.gradient {
        Some(_) => forward::kernel(cx, view, flow),
        None => backward::kernel(cx, view, flow),
    }
}

/// The block that `op` runs.
///
/// # Errors
/// When there is none.
pub(crate) fn sub_block(program: &Program, op: &Op) -> Result<usize> {
    let named = match op.attrs.get("sub_block") {
        Some(Attr::Block(block)) => usize::try_from(*block).ok(),
        _ => None,
    };
    // Block 0 is inside of no other; `verify` has seen to it that blocks inside have higher numbers.
    named
        .filter(|block| *block > 0 && *block < program.blocks.len())
        .ok_or_else(|| Error::kernel("has no block"))
}

/// That every block which an op runs is inside of that op's block, and run by no other: what looks at blocks then looks
/// at each once.
///
/// # Errors
/// When one is not.
pub(crate) fn check_blocks(program: &Program) -> Result<()> {
    let mut taken = vec![false; program.blocks.len()];
    for block in &program.blocks {
        for op in block.ops.iter().filter(|op| flow_of(&op.kind).is_some()) {
            let inner = sub_block(program, op).map_err(|error| error.in_op(op))?;
            let is_taken = std::mem::replace(&mut taken[inner], true);
            if is_taken || inner <= block.idx {
                let problem = if is_taken { "another op runs it too" } else { "it comes before" };
                return Err(Error::kernel(format!("cannot run block {inner}: {problem}")).in_op(op));
            }
        }
    }
    Ok(())
}

/// A list of names in an attribute; none when it is missing.
pub(crate) fn names(op: &Op, attr: &str) -> Vec<String> {
    match op.attrs.get(attr) {
        Some(Attr::Strings(names)) => names.clone(),
        _ => Vec::new(),
    }
}

/// How the op type `kind` runs a block, if it does.
pub(crate) fn flow_of(kind: &str) -> Option<&'static Flow> {
    crate::ops::find(kind).ok().and_then(|def| def.flow)
}
