//! `c_reduce_{sum,prod,min,max}`: rank `root_id` gets the reduction of all, the others keep theirs.

use super::{CALC, RING, rank, reduction, ring};
use crate::ops::prelude::*;

pub(super) const SUM: OpDef = definition("c_reduce_sum", |op| kernel(op, "sum"));
pub(super) const PROD: OpDef = definition("c_reduce_prod", |op| kernel(op, "prod"));
pub(super) const MIN: OpDef = definition("c_reduce_min", |op| kernel(op, "min"));
pub(super) const MAX: OpDef = definition("c_reduce_max", |op| kernel(op, "max"));

const INPUTS: &[Slot] = &[Slot::one("X")];
const OUTPUTS: &[Slot] = &[Slot::one("Out")];
const ATTRS: &[AttrSpec] = &[RING, CALC, attr::int("root_id", 0)];

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
    let (how, root) = (reduction(how)?, rank(op, "root_id")?);
    let mut own = crate::tensor::Tensor::empty(DType::F32);
    Ok(Box::new(move |run| {
        let x = run.continued(&mut x)?;
        let peers = link.settled();
        if peers.rank(ring)? == root {
            return peers.reduce(ring, x, how, root);
        }
        own.copy_from(x);
        peers.reduce(ring, &mut own, how, root)
    }))
}
