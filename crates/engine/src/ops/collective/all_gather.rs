//! `c_allgather`: every rank gets the rows of all, in the order of ranks.

use super::{CALC, MODEL_PARALLEL, RANKS, RING, check_ranks, ranks, ring, scaled_rows};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("c_allgather", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[RING, CALC, MODEL_PARALLEL, RANKS])
    .infer(|cx| {
        let ranks = ranks(cx.op())?;
        scaled_rows(cx, ranks, 1)
    })
    .ordered();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, ring, link) = (op.input("X")?, op.output("Out")?, ring(op)?, op.link()?);
    check_ranks(op, ring)?;
    Ok(Box::new(move |run| link.settled().all_gather(ring, run.tensor(x)?, run.out(&mut out)?)))
}
