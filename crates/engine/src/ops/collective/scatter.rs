//! `c_scatter`: every rank gets its rows of what rank `root` has.

use super::{CALC, RANKS, RING, check_ranks, rank, ranks, ring, scaled_rows};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("c_scatter", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[RING, CALC, RANKS, attr::int("root", 0)])
    .infer(|cx| {
        let ranks = ranks(cx.op())?;
        scaled_rows(cx, 1, ranks)
    })
    .ordered();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, ring, link) = (op.input("X")?, op.output("Out")?, ring(op)?, op.link()?);
    let root = rank(op, "root")?;
    check_ranks(op, ring)?;
    Ok(Box::new(move |run| link.settled().scatter(ring, run.tensor(x)?, run.out(&mut out)?, root)))
}
