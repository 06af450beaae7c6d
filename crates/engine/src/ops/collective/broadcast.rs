//! `c_broadcast`: every rank gets what rank `root` has.

use super::{CALC, RING, rank, ring};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("c_broadcast", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[RING, CALC, attr::int("root", 0)])
    .like(&[("Out", "X")])
    .inplace(&[("X", "Out")])
    .ordered();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mut x, ring, link) = (op.in_out("X", "Out")?, ring(op)?, op.link()?);
    let root = rank(op, "root")?;
    Ok(Box::new(move |run| {
        let x = run.continued(&mut x)?;
        link.settled().broadcast(ring, x, root)
    }))
}
