//! `cross_entropy`: `-ln` of the probability given to the right class, or its mean over soft
//! labels. Classes are the last dimension of `X`.

use super::labels::{Labels, minus_ln};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("cross_entropy", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Label")])
    .outputs(&[Slot::one("Y")])
    .attrs(&[attr::bool("soft_label", false), attr::int("ignore_index", -100)])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::RowWise)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Label"]));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, label) = (cx.input("X")?, cx.input("Label")?);
    let y = per_sample(x, label)?;
    cx.set("Y", y);
    Ok(())
}

/// The shape of one value per sample: that of `Label` without classes, which may or may not keep
/// a last dimension of 1.
pub(super) fn per_sample(x: &Meta, label: &Meta) -> Result<Meta> {
    let mut dims = x.dims.clone();
    if dims.pop().is_none() || label.rank() + 1 < x.rank() || label.rank() > x.rank() {
        return Err(Error::kernel(format!(
            "`Label` {:?} does not fit `X` {:?}: expected the same rank, or one less",
            label.dims, x.dims
        )));
    }
    if label.rank() == x.rank() {
        dims.push(1);
    }
    Ok(x.with_dims(dims))
}

/// Samples and classes of `x`.
fn sizes(x: &Tensor) -> (usize, usize) {
    let classes = x.dims().last().copied().unwrap_or(1);
    (x.numel() / classes.max(1), classes)
}

/// Soft labels: one for every element of `x`.
fn soft<T: Real>(label: &Tensor, len: usize) -> Result<&[T]> {
    let label = label.as_slice::<T>()?;
    if label.len() == len {
        return Ok(label);
    }
    let given = label.len();
    Err(Error::kernel(format!("soft labels need {len} values, as `X` has, but {given} are given")))
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, label, mut y) = (op.input("X")?, op.input("Label")?, op.output("Y")?);
    let (soft_label, ignore) = (op.bool("soft_label")?, op.i64("ignore_index")?);
    float_kernel!(op, "X", |run, T| {
        let (samples, classes) = sizes(run.tensor(x)?);
        let label = run.tensor(label)?;
        let (x, y) = (run.get::<T>(x)?, run.set::<T>(&mut y)?);
        let rows = y.iter_mut().zip(x.chunks_exact(classes.max(1)));
        if soft_label {
            let label = soft::<T>(label, x.len())?;
            for ((y, x), label) in rows.zip(label.chunks_exact(classes.max(1))) {
                *y = x.iter().zip(label).map(|(x, label)| minus_ln(*x) * label).sum();
            }
        } else {
            let labels = Labels::of(label, samples)?;
            for (sample, (y, x)) in rows.enumerate() {
                let class = labels.class(sample, classes, ignore)?;
                *y = class.map_or(0.0, |class| minus_ln(x[class]));
            }
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    let (dy, mut dx) = (op.input("Y@GRAD")?, op.output("X@GRAD")?);
    let (soft_label, ignore) = (op.bool("soft_label")?, op.i64("ignore_index")?);
    float_kernel!(op, "X", |run, T| {
        let (samples, classes) = sizes(run.tensor(x)?);
        let label = run.tensor(label)?;
        let (x, dy, dx) = (run.get::<T>(x)?, run.get::<T>(dy)?, run.set::<T>(&mut dx)?);
        let width = classes.max(1);
        let rows = dx.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(dy);
        if soft_label {
            let label = soft::<T>(label, x.len())?;
            for (((dx, x), dy), label) in rows.zip(label.chunks_exact(width)) {
                for ((dx, x), label) in dx.iter_mut().zip(x).zip(label) {
                    *dx = -(label * dy) / x;
                }
            }
        } else {
            let labels = Labels::of(label, samples)?;
            for (sample, ((dx, x), dy)) in rows.enumerate() {
                dx.fill(0.0);
                if let Some(class) = labels.class(sample, classes, ignore)? {
                    dx[class] = -dy / x[class];
                }
            }
        }
    })
}
