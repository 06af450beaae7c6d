//! `alltoall`: the rows of `X` in as many parts as there are ranks; part `i` goes to rank `i`.

use super::{CALC, RING, ring};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("alltoall", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[RING, CALC])
    .like(&[("Out", "X")])
    .ordered();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, ring, link) = (op.input("X")?, op.output("Out")?, ring(op)?, op.link()?);
    let ranks = link.peers().size(ring)?;
    Ok(Box::new(move |run| {
        let x = run.tensor(x)?;
        if x.rows() % ranks != 0 {
            let rows = x.rows();
            return Err(Error::kernel(format!(
                "`X` has {rows} rows, not a part for each of {ranks}"
            )));
        }
        link.settled().all_to_all(ring, x, run.out(&mut out)?)
    }))
}
