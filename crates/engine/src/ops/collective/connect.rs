//! `gen_nccl_id`, `c_gen_nccl_id`, `c_comm_init`, `c_comm_init_all`: how a startup program says who
//! its ranks are. The connection is there before any op runs; these check that it is the right one.

use super::{RING, raw, ring};
use crate::ops::prelude::*;

pub(super) const GEN_NCCL_ID: OpDef = OpDef::new("gen_nccl_id", |op| {
    let trainers = op.strings("trainers")?;
    check(op, 0, op.i64("trainer_id")?, trainers.len() as i64)?;
    Ok(Box::new(|_| Ok(())))
})
.outputs(&[Slot::any("NCCLID")])
.attrs(&[
    attr::strings("trainers", &[]),
    attr::int("trainer_id", 0),
    attr::int("nccl_comm_num", 1),
    attr::bool("use_hierarchical_allreduce", false),
    attr::int("hierarchical_allreduce_inter_nranks", 1),
])
.infer(|cx| {
    raw(cx, "NCCLID");
    Ok(())
})
.ordered();

pub(super) const C_GEN_NCCL_ID: OpDef = OpDef::new("c_gen_nccl_id", |op| {
    let others = op.strings("other_endpoints")?;
    check(op, ring(op)?, op.i64("rank")?, others.len() as i64 + 1)?;
    Ok(Box::new(|_| Ok(())))
})
.outputs(&[Slot::any("Out")])
.attrs(&[
    RING,
    attr::int("rank", 0),
    attr::str("endpoint", ""),
    attr::strings("other_endpoints", &[]),
])
.infer(|cx| {
    raw(cx, "Out");
    Ok(())
})
.ordered();

pub(super) const COMM_INIT: OpDef = OpDef::new("c_comm_init", |op| {
    check(op, ring(op)?, op.i64("rank")?, op.i64("nranks")?)?;
    Ok(Box::new(|_| Ok(())))
})
.inputs(&[Slot::any("X")])
.attrs(&[
    RING,
    attr::int("rank", 0),
    attr::int("nranks", 1),
    attr::int("device_id", -1),
    attr::str("endpoints", ""),
])
.ordered();

pub(super) const COMM_INIT_ALL: OpDef =
    OpDef::new("c_comm_init_all", all).attrs(&[RING, attr::ints("devices", &[])]).ordered();

/// One device is a ring of its own.
fn all(op: &OpView<'_>) -> Result<Kernel> {
    let devices = op.longs("devices")?;
    if devices.len() > 1 {
        return Err(Error::kernel(format!(
            "one process runs on one device, not on {}: start a process for each",
            devices.len()
        )));
    }
    Ok(Box::new(|_| Ok(())))
}

fn check(op: &OpView<'_>, ring: i32, rank: i64, ranks: i64) -> Result<()> {
    let link = op.link()?;
    let (own, size) = (link.peers().rank(ring)? as i64, link.peers().size(ring)? as i64);
    if (own, size) == (rank, ranks) {
        return Ok(());
    }
    Err(Error::kernel(format!(
        "the program is that of rank {rank} of {ranks}, but this process is rank {own} of {size}"
    )))
}
