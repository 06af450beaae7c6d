//! `scatter`: rows of a tensor replaced by others, or by sums of others.
//!
//! With `overwrite` the last update of a row wins; without, a named row becomes the sum of its
//! updates (what was there is lost).

use super::gather::in_f32;
use super::positions;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("scatter", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Ids"), Slot::one("Updates")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::bool("overwrite", true)])
    .infer(infer)
    .lod_from("X")
    .grad(GradRule::Op(&["Ids", "Updates"]));

pub(super) const GRAD: OpDef = OpDef::new("scatter_grad", grad_kernel)
    .inputs(&[Slot::one("Ids"), Slot::one("Updates"), Slot::one("Out@GRAD")])
    .outputs(&[Slot::maybe("X@GRAD"), Slot::maybe("Updates@GRAD")])
    .attrs(&[attr::bool("overwrite", true)])
    .like(&[("X@GRAD", "Out@GRAD"), ("Updates@GRAD", "Updates")]);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, ids, updates) = (cx.input("X")?, cx.input("Ids")?, cx.input("Updates")?);
    let count = positions::count(ids)?;
    let fits = match (x.dims.as_slice(), updates.dims.as_slice()) {
        ([_, x @ ..], [rows, updates @ ..]) if x.len() == updates.len() => {
            same_dim(count, *rows).is_ok()
                && x.iter().zip(updates).all(|(a, b)| same_dim(*a, *b).is_ok())
        }
        _ => false,
    };
    if !fits {
        let shapes = format!("`Updates` {:?} by `Ids` {:?}", updates.dims, ids.dims);
        return Err(Error::kernel(format!("{shapes} do not fit the rows of `X` {:?}", x.dims)));
    }
    if updates.dtype != x.dtype {
        let types = format!("`Updates` are {} and `X` is {}", updates.dtype, x.dtype);
        return Err(Error::kernel(format!("{types}, but both must have one element type")));
    }
    cx.set("Out", x.clone());
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, ids, updates) = (op.input("X")?, op.input("Ids")?, op.input("Updates")?);
    let (mut out, overwrite) = (op.output("Out")?, op.bool("overwrite")?);
    let mut rows = Vec::new();
    Ok(Box::new(move |run| {
        let (x, updates) = (run.tensor(x)?, run.tensor(updates)?);
        let out = run.out(&mut out)?;
        positions::read(&mut rows, run.tensor(ids)?, x.rows())?;
        out.copy_from(x);
        let width = x.numel() / x.rows().max(1);
        if updates.numel() != rows.len() * width {
            return Err(Error::kernel(format!(
                "{} rows cannot be updated by {}",
                rows.len(),
                updates.dims()
            )));
        }
        put(out, updates, &rows, width, overwrite)
    }))
}

fn put(
    out: &mut Tensor,
    updates: &Tensor,
    rows: &[usize],
    width: usize,
    overwrite: bool,
) -> Result<()> {
    if width == 0 {
        return Ok(());
    }
    if overwrite {
        let width = width * out.dtype().size();
        for (update, row) in updates.as_bytes().chunks_exact(width).zip(rows) {
            out.as_mut_bytes()[row * width..(row + 1) * width].copy_from_slice(update);
        }
        return Ok(());
    }
    clear(out, rows, width);
    if matches!(out.dtype(), DType::F16 | DType::BF16) {
        return in_f32(out, updates, |out, updates| add(out, updates, rows, width));
    }
    add(out, updates, rows, width)
}

fn add(out: &mut Tensor, updates: &Tensor, rows: &[usize], width: usize) -> Result<()> {
    dispatch!(out.dtype(), T in [f32, f64, i32, i64] => {
        let out = out.as_mut_slice::<T>()?;
        for (update, row) in updates.as_slice::<T>()?.chunks_exact(width).zip(rows) {
            let out = &mut out[row * width..(row + 1) * width];
            out.iter_mut().zip(update).for_each(|(out, update)| *out = out.plus(*update));
        }
        Ok(())
    }, else => Err(Error::kernel(format!("cannot add {} elements", out.dtype()))))
}

fn clear(out: &mut Tensor, rows: &[usize], width: usize) {
    let width = width * out.dtype().size();
    for row in rows {
        out.as_mut_bytes()[row * width..(row + 1) * width].fill(0);
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (ids, updates, dout) = (op.input("Ids")?, op.input("Updates")?, op.input("Out@GRAD")?);
    let (mut dx, mut dupdates) = (op.maybe_output("X@GRAD"), op.maybe_output("Updates@GRAD"));
    let mut rows = Vec::new();
    Ok(Box::new(move |run| {
        let (dout, dims) = (run.tensor(dout)?, run.dims(updates)?);
        let width = dout.numel() / dout.rows().max(1);
        positions::read(&mut rows, run.tensor(ids)?, dout.rows())?;
        if let Some(dx) = &mut dx {
            let dx = run.out(dx)?;
            dx.copy_from(dout);
            clear(dx, &rows, width);
        }
        let bytes = width * dout.dtype().size();
        if let (Some(dupdates), true) = (&mut dupdates, bytes > 0) {
            let dupdates = run.out(dupdates)?;
            dupdates.resize(dout.dtype(), dims);
            for (out, row) in dupdates.as_mut_bytes().chunks_exact_mut(bytes).zip(&rows) {
                out.copy_from_slice(&dout.as_bytes()[row * bytes..(row + 1) * bytes]);
            }
        }
        Ok(())
    }))
}
