//! Ops that only hand a value on: `c_identity`, and what puts the streams of a device in order. A
//! plan takes the latter out, and waits where they stand for what was started before.

use super::{CALC, MODEL_PARALLEL, RING};
use crate::ops::prelude::*;

pub(super) const IDENTITY: OpDef = definition("c_identity");
pub(super) const SYNC_CALC: OpDef = definition("c_sync_calc_stream");
pub(super) const SYNC_COMM: OpDef = definition("c_sync_comm_stream");
pub(super) const WAIT_COMM: OpDef = definition("c_wait_comm");
pub(super) const WAIT_COMPUTE: OpDef = definition("c_wait_compute");

const INPUTS: &[Slot] = &[Slot::many("X")];
const OUTPUTS: &[Slot] = &[Slot::many("Out")];
const ATTRS: &[AttrSpec] = &[RING, CALC, MODEL_PARALLEL];

const fn definition(name: &'static str) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(INPUTS)
        .outputs(OUTPUTS)
        .attrs(ATTRS)
        .like(&[("Out", "X")])
        .inplace(&[("X", "Out")])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut pairs = op.in_outs("X", "Out");
    Ok(Box::new(move |run| pairs.iter_mut().try_for_each(|pair| run.carry_over(pair))))
}
