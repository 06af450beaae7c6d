//! `recv`: current values of parameter pieces.
//!
//! Attributes `ranks` and `shapes` say the shape of each piece, which nothing else in the program
//! would tell the shape rule: the dimensions of all pieces in a row.

use bireme_ir::DType;

use super::{ENDPOINTS, EPMAP, HETER, MODE, TRAINER_ID, TRAINERS, dummies, pieces};
use crate::op::{Infer, Kernel, Meta, OpDef, OpView, Slot, attr};
use crate::tensor::Tensor;
use crate::{Error, Result};

pub(super) const DEF: OpDef = OpDef::new("recv", kernel)
    .inputs(&[Slot::any("X")])
    .outputs(&[Slot::many("Out"), Slot::any("Dummy")])
    .attrs(&[
        attr::strings("recv_varnames", &[]),
        attr::strings("varnames", &[]),
        EPMAP,
        ENDPOINTS,
        TRAINER_ID,
        TRAINERS,
        HETER,
        MODE,
        attr::ints("ranks", &[]),
        attr::longs("shapes", &[]),
        attr::int("dtype", DType::F32.code()),
        attr::bool("with_barrier", true),
        attr::bool("do_not_run", false),
    ])
    .shared(&["Out"])
    .infer(infer)
    .side_effect();

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (ranks, shapes) = (cx.op().longs("ranks")?, cx.op().longs("shapes")?);
    let (dtype, count) = (cx.op().dtype("dtype")?, cx.op().outputs("Out").len());
    let mut rest = shapes.as_slice();
    let mut metas = Vec::with_capacity(count);
    for rank in &ranks {
        let rank = usize::try_from(*rank).ok().filter(|rank| *rank <= rest.len());
        let rank = rank.ok_or_else(|| Error::kernel("`shapes` is shorter than `ranks` says"))?;
        let (dims, after) = rest.split_at(rank);
        metas.push(Meta::new(dtype, dims));
        rest = after;
    }
    if metas.len() != count || !rest.is_empty() {
        let problem = format!("`ranks` and `shapes` must describe {count} variables");
        return Err(Error::kernel(problem));
    }
    cx.set_each("Out", metas);
    dummies(cx, "Dummy");
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (remote, outs) = (op.remote()?, op.outputs("Out"));
    let pieces = pieces(op, "recv_varnames", outs.len())?;
    Ok(Box::new(move |run| {
        let mut outs =
            outs.iter().map(|out| run.out(*out)).collect::<Result<Vec<&mut Tensor>>>()?;
        remote.recv(&pieces, &mut outs)
    }))
}
