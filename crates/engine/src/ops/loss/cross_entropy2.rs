//! `cross_entropy2`: `cross_entropy` with hard labels that keeps the probabilities it looked up,
//! so that its gradient need not read `X`.

use bireme_ir::Op;

use super::cross_entropy::per_sample;
use super::labels::{Labels, minus_ln};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("cross_entropy2", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Label")])
    .outputs(&[Slot::one("Y"), Slot::maybe("XShape"), Slot::maybe("MatchX")])
    .attrs(&[attr::int("ignore_index", -100)])
    .infer(infer)
    .lod_from("X")
    .grad(GradRule::Fn(grad))
    .split(SplitRule::RowWise);

pub(super) const GRAD: OpDef = OpDef::new("cross_entropy_grad2", grad_kernel)
    .inputs(&[Slot::one("Label"), Slot::one("MatchX"), Slot::one("XShape"), Slot::one("Y@GRAD")])
    .outputs(&[Slot::one("X@GRAD")])
    .attrs(&[attr::int("ignore_index", -100)])
    .infer(infer_grad)
    .split(SplitRule::RowWise);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, label) = (cx.input("X")?, cx.input("Label")?);
    let y = per_sample(x, label)?;
    cx.set("MatchX", y.clone());
    cx.set("Y", y);
    cx.set("XShape", x.with_dims([x.dims.as_slice(), &[0]].concat()));
    Ok(())
}

/// `XShape` is the shape of `X` with a 0 appended.
fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    let (shape, dtype) = (cx.input("XShape")?, cx.input("MatchX")?.dtype);
    let Some((_, dims)) = shape.dims.split_last() else {
        return Err(Error::kernel("`XShape` has no dimensions"));
    };
    cx.set("X@GRAD", shape.with_dims(dims).with_dtype(dtype));
    Ok(())
}

/// The one gradient op whose name Paddle spells with the number last.
fn grad(view: &OpView<'_>) -> Result<Vec<Op>> {
    let forward = view.op;
    let gradients =
        |vars: &[String]| vars.iter().map(|var| bireme_ir::grad_name(var)).collect::<Vec<_>>();
    let mut op = Op::new("cross_entropy_grad2")
        .input("Label", forward.inputs_of("Label").to_vec())
        .input("MatchX", forward.outputs_of("MatchX").to_vec())
        .input("XShape", forward.outputs_of("XShape").to_vec())
        .input("Y@GRAD", gradients(forward.outputs_of("Y")))
        .output("X@GRAD", gradients(forward.inputs_of("X")))
        .attr("ignore_index", view.attr("ignore_index")?);
    op.site.clone_from(&forward.site);
    Ok(vec![op])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, label, mut y) = (op.input("X")?, op.input("Label")?, op.output("Y")?);
    let (mut matched, ignore) = (op.maybe_output("MatchX"), op.i64("ignore_index")?);
    float_kernel!(op, "X", |run, T| {
        let classes = run.dims(x)?.last().copied().unwrap_or(1);
        let label = run.tensor(label)?;
        let (x, y) = (run.get::<T>(x)?, run.set::<T>(&mut y)?);
        let mut matched = matched.as_mut().map(|matched| run.set::<T>(matched)).transpose()?;
        let labels = Labels::of(label, y.len())?;
        for (sample, (y, x)) in y.iter_mut().zip(x.chunks_exact(classes.max(1))).enumerate() {
            let found = labels.class(sample, classes, ignore)?.map(|class| x[class]);
            *y = found.map_or(0.0, minus_ln);
            if let Some(matched) = &mut matched {
                matched[sample] = found.unwrap_or(0.0);
            }
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (label, matched) = (op.input("Label")?, op.input("MatchX")?);
    let (dy, mut dx) = (op.input("Y@GRAD")?, op.output("X@GRAD")?);
    let ignore = op.i64("ignore_index")?;
    float_kernel!(op, "MatchX", |run, T| {
        let label = run.tensor(label)?;
        let (matched, dy) = (run.get::<T>(matched)?, run.get::<T>(dy)?);
        let dx = run.set::<T>(&mut dx)?;
        let labels = Labels::of(label, matched.len())?;
        let classes = dx.len() / matched.len().max(1);
        let rows = dx.chunks_exact_mut(classes.max(1)).zip(matched).zip(dy);
        for (sample, ((dx, matched), dy)) in rows.enumerate() {
            dx.fill(0.0);
            if let Some(class) = labels.class(sample, classes, ignore)? {
                dx[class] = -dy / matched;
            }
        }
    })
}
