//! Axes and outputs of ops as their attributes and names give them.

use bireme_ir::EMPTY_VAR;

use super::lowering::{Lowering, invalid};
use super::{Outcome, Var, host};

/// An axis of a tensor of `rank` dimensions, counted from the end when negative.
pub(super) fn axis_in(axis: i64, rank: usize) -> Outcome<usize> {
    let positive = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&positive) {
        return Ok(positive as usize);
    }
    Err(invalid(format!("axis {axis} lies outside a tensor of rank {rank}")))
}

/// The elements in front of `axis`, along it, and behind it: a tensor as `outer × len × inner`.
pub(super) fn around_axis(dims: &[usize], axis: usize) -> (usize, usize, usize) {
    // A scalar is a list of one.
    let len = dims.get(axis).copied().unwrap_or(1);
    let inner = dims.get(axis + 1..).map_or(1, |rest| rest.iter().product());
    (dims[..axis.min(dims.len())].iter().product(), len, inner)
}

impl Lowering<'_> {
    /// Declines when one of these slots is filled: what is in it would have to be known now.
    pub(super) fn decline_values_in(&self, slots: &[&str]) -> Outcome {
        let has = |slot: &&str| self.op.op.inputs.get(*slot).is_some_and(|vars| !vars.is_empty());
        if slots.iter().any(has) { host() } else { Ok(()) }
    }

    /// The variables in output slot `slot`, without those that nobody wants.
    pub(super) fn wanted_outputs(&self, slot: &str) -> Vec<Option<Var>> {
        let names = self.op.op.outputs_of(slot);
        let outputs = self.outputs(slot).into_iter().zip(names);
        outputs.map(|(out, name)| (name != EMPTY_VAR).then_some(out)).collect()
    }

    /// The variable in output slot `slot`, if somebody wants it.
    pub(super) fn wanted_output(&self, slot: &str) -> Option<Var> {
        self.wanted_outputs(slot).into_iter().next().flatten()
    }
}
