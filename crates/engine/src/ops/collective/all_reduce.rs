//! `c_allreduce_{sum,prod,min,max}`: every rank gets the reduction of all. Selected rows have only a
//! sum, which is the rows of all ranks one after the other.

use super::{CALC, MODEL_PARALLEL, RING, reduction, ring, rows};
use crate::ops::prelude::*;

pub(super) const SUM: OpDef = definition("c_allreduce_sum", |op| kernel(op, "sum"));
pub(super) const PROD: OpDef = definition("c_allreduce_prod", |op| kernel(op, "prod"));
pub(super) const MIN: OpDef = definition("c_allreduce_min", |op| kernel(op, "min"));
pub(super) const MAX: OpDef = definition("c_allreduce_max", |op| kernel(op, "max"));

const INPUTS: &[Slot] = &[Slot::one("X")];
const OUTPUTS: &[Slot] = &[Slot::one("Out")];
const ATTRS: &[AttrSpec] = &[RING, CALC, MODEL_PARALLEL];

const fn definition(name: &'static str, kernel: fn(&OpView<'_>) -> Result<Kernel>) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(INPUTS)
        .outputs(OUTPUTS)
        .attrs(ATTRS)
        .like(&[("Out", "X")])
        .inplace(&[("X", "Out")])
        .ordered()
}

fn kernel(op: &OpView<'_>, how: &str) -> Result<Kernel> {
    let (mut x, ring, link) = (op.in_out("X", "Out")?, ring(op)?, op.link()?);
    let (is_sum, how) = (how == "sum", reduction(how)?);
    Ok(Box::new(move |run| {
        run.carry_over(&mut x)?;
        let peers = link.settled();
        match run.out_value(&mut x.out) {
            Value::Tensor(out) => peers.all_reduce(ring, out, how),
            Value::Rows(out) if is_sum => rows::all_gather(peers, ring, out),
            Value::Rows(_) => Err(Error::kernel("selected rows can only be summed over ranks")),
        }
    }))
}
