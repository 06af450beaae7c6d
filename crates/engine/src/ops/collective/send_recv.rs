//! `send_v2` and `recv_v2`: a tensor from one rank to another.

use super::{CALC, RING, rank, ring};
use crate::ops::prelude::*;

pub(super) const SEND: OpDef = OpDef::new("send_v2", send)
    .inputs(&[Slot::one("X")])
    .attrs(&[RING, CALC, attr::int("peer", 0), attr::bool("dynamic_shape", false)])
    .ordered();

pub(super) const RECV: OpDef = OpDef::new("recv_v2", receive)
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        RING,
        CALC,
        attr::int("peer", 0),
        attr::int("dtype", DType::F32.code()),
        attr::ints("out_shape", &[]),
        attr::bool("dynamic_shape", false),
    ])
    .infer(infer)
    .ordered();

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let shape = cx.op().longs("out_shape")?;
    let out = Meta::new(cx.op().dtype("dtype")?, shape);
    if !out.is_static() {
        return Err(Error::kernel("`out_shape` must say every dimension of what is received"));
    }
    cx.set("Out", out);
    Ok(())
}

fn refuse_dynamic(op: &OpView<'_>) -> Result<()> {
    match op.bool("dynamic_shape")? {
        false => Ok(()),
        true => Err(Error::kernel("`dynamic_shape` is not in this version: say `out_shape`")),
    }
}

fn send(op: &OpView<'_>) -> Result<Kernel> {
    let (x, ring, peer, link) = (op.input("X")?, ring(op)?, rank(op, "peer")?, op.link()?);
    refuse_dynamic(op)?;
    Ok(Box::new(move |run| link.settled().send(ring, run.tensor(x)?, peer)))
}

fn receive(op: &OpView<'_>) -> Result<Kernel> {
    let (mut out, ring, peer, link) = (op.output("Out")?, ring(op)?, rank(op, "peer")?, op.link()?);
    refuse_dynamic(op)?;
    Ok(Box::new(move |run| link.settled().receive(ring, run.out(&mut out)?, peer)))
}
