//! `c_reducescatter`: every rank gets its rows of the sum of all.

use super::{CALC, RANKS, RING, check_ranks, ranks, ring, scaled_rows};
use crate::collective::Reduction;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("c_reducescatter", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[RING, CALC, RANKS])
    .infer(|cx| {
        let ranks = ranks(cx.op())?;
        scaled_rows(cx, 1, ranks)
    })
    .ordered();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, ring, link) = (op.input("X")?, op.output("Out")?, ring(op)?, op.link()?);
    check_ranks(op, ring)?;
    Ok(Box::new(move |run| {
        let peers = link.settled();
        peers.reduce_scatter(ring, run.tensor(x)?, run.out(&mut out)?, Reduction::Sum)
    }))
}
