//! `recv`: current values of parameter pieces.
//!
//! Attributes `ranks` and `shapes` say the shape of each piece, which nothing else in the program
//! would tell the shape rule: the dimensions of all pieces in a row.

use super::{ENDPOINTS, EPMAP, HETER, MODE, TRAINER_ID, TRAINERS, dummies, pieces};
use crate::ops::prelude::*;

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
    let shapes = shapes(cx.op(), cx.op().op.outputs_of("Out").len())?;
    let dtype = cx.op().dtype("dtype")?;
    cx.set_each("Out", shapes.into_iter().map(|dims| Meta::new(dtype, dims)));
    dummies(cx, "Dummy");
    Ok(())
}

/// The shape of each of `count` pieces.
fn shapes(op: &OpView<'_>, count: usize) -> Result<Vec<Vec<i64>>> {
    let (ranks, shapes) = (op.longs("ranks")?, op.longs("shapes")?);
    let mut rest = shapes.as_slice();
    let mut each = Vec::with_capacity(count);
    for rank in &ranks {
        let rank = usize::try_from(*rank).ok().filter(|rank| *rank <= rest.len());
        let rank = rank.ok_or_else(|| Error::kernel("`shapes` is shorter than `ranks` says"))?;
        let (dims, after) = rest.split_at(rank);
        each.push(dims.to_vec());
        rest = after;
    }
    if each.len() != count || !rest.is_empty() {
        let problem = format!("`ranks` and `shapes` must describe {count} variables");
        return Err(Error::kernel(problem));
    }
    Ok(each)
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (remote, mut outs) = (op.remote()?, op.outputs("Out"));
    let pieces = pieces(op, "recv_varnames", outs.len())?;
    let shapes = shapes(op, outs.len())?;
    // On the host outputs are variables of a scope, which anybody may write between two steps.
    let held = op.held.cloned();
    Ok(Box::new(move |run| {
        let mut outs =
            outs.iter_mut().map(|out| run.out(out)).collect::<Result<Vec<&mut Tensor>>>()?;
        match &held {
            Some(held) => held.update(|versions| remote.recv(&pieces, &mut outs, versions))?,
            None => remote.recv(&pieces, &mut outs, &mut vec![0; pieces.len()])?,
        }
        // The kernels that follow were made for the program's shapes.
        for ((piece, shape), out) in pieces.iter().zip(&shapes).zip(&outs) {
            let dims = out.dims();
            if !dims.iter().map(|dim| *dim as i64).eq(shape.iter().copied()) {
                return Err(Error::kernel(format!(
                    "server `{}` has `{}` with the shape {dims:?}, this program with {shape:?}: \
                     start all processes of the job with the same script and settings",
                    piece.endpoint, piece.name
                )));
            }
        }
        Ok(())
    }))
}
