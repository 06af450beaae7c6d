//! `barrier`: goes on when every rank is here. What it reads it hands on.

use super::{RING, ring};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("barrier", kernel)
    .inputs(&[Slot::maybe("X")])
    .outputs(&[Slot::maybe("Out")])
    .attrs(&[RING])
    .like(&[("Out", "X")])
    .inplace(&[("X", "Out")])
    .ordered();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mut x, ring, link) = (op.maybe_in_out("X", "Out"), ring(op)?, op.link()?);
    Ok(Box::new(move |run| {
        if let Some(x) = &mut x {
            run.carry_over(x)?;
        }
        link.settled().barrier(ring)
    }))
}
