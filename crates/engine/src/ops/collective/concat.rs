//! `c_concat` and `c_split`: columns of all ranks side by side, and this rank's columns of them.

use super::{CALC, MODEL_PARALLEL, RANKS, RING, check_ranks, rank, ranks, ring};
use crate::ops::prelude::*;

pub(super) const CONCAT: OpDef = OpDef::new("c_concat", concat)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[RING, CALC, MODEL_PARALLEL, RANKS, attr::int("rank", 0)])
    .infer(|cx| {
        let ranks = ranks(cx.op())?;
        columns(cx, ranks, 1)
    })
    .ordered();

pub(super) const SPLIT: OpDef = OpDef::new("c_split", split)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[RING, CALC, MODEL_PARALLEL, RANKS, attr::int("rank", 0)])
    .infer(|cx| {
        let ranks = ranks(cx.op())?;
        columns(cx, 1, ranks)
    });

fn columns(cx: &mut Infer<'_>, times: i64, divide: i64) -> Result<()> {
    let mut out = cx.input("X")?.clone();
    let Some(last) = out.dims.last_mut() else {
        return Err(Error::kernel("`X` has no columns"));
    };
    if *last >= 0 {
        if *last % divide != 0 {
            return Err(Error::kernel(format!(
                "`X` has {last} columns, which {divide} ranks cannot share evenly"
            )));
        }
        *last = *last / divide * times;
    }
    cx.set("Out", out);
    Ok(())
}

/// Bytes of the last dimension.
fn row_bytes(tensor: &Tensor) -> usize {
    tensor.dims().last().copied().unwrap_or(1) * tensor.dtype().size()
}

fn concat(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, ring, link) = (op.input("X")?, op.output("Out")?, ring(op)?, op.link()?);
    check_ranks(op, ring)?;
    let mut all = Tensor::empty(DType::F32);
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        all.resize(x.dtype(), [out.numel()]);
        link.settled().all_gather(ring, x, &mut all)?;
        let (wide, narrow, part) = (row_bytes(out), row_bytes(x), x.as_bytes().len());
        if narrow == 0 || part == 0 {
            return Ok(());
        }
        let target = out.as_mut_bytes();
        for (rank, part) in all.as_bytes().chunks_exact(part).enumerate() {
            for (row, values) in part.chunks_exact(narrow).enumerate() {
                target[row * wide + rank * narrow..][..narrow].copy_from_slice(values);
            }
        }
        Ok(())
    }))
}

fn split(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, rank, ranks) =
        (op.input("X")?, op.output("Out")?, rank(op, "rank")?, ranks(op)?);
    if rank as i64 >= ranks {
        return Err(Error::kernel(format!("`rank` is {rank}, but `nranks` is {ranks}")));
    }
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let (wide, narrow) = (row_bytes(x), row_bytes(out));
        if narrow == 0 {
            return Ok(());
        }
        let rows = x.as_bytes().chunks_exact(wide).zip(out.as_mut_bytes().chunks_exact_mut(narrow));
        for (from, to) in rows {
            to.copy_from_slice(&from[rank * narrow..][..narrow]);
        }
        Ok(())
    }))
}
