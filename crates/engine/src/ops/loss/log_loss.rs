//! `log_loss`: binary cross-entropy of probabilities, kept finite by `epsilon`.

use super::pairwise;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("log_loss", kernel)
    .inputs(&[Slot::one("Predicted"), Slot::one("Labels")])
    .outputs(&[Slot::one("Loss")])
    .attrs(&[attr::required("epsilon", AttrKind::Float)])
    .infer(infer)
    .lod_from("Predicted")
    .split(SplitRule::RowWise)
    .gradient(Gradient::new(&["Predicted"], grad_kernel).reads(&["Predicted", "Labels"]));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    pairwise::same_shape(cx, "Predicted", "Labels")?;
    cx.like(&[("Loss", "Predicted")])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, label) = (op.input("Predicted")?, op.input("Labels")?);
    let (mut out, epsilon) = (op.output("Loss")?, op.f64("epsilon")?);
    float_kernel!(op, "Predicted", |run, T| {
        let (x, label, out) = (run.get::<T>(x)?, run.get(label)?, run.set(&mut out)?);
        pairwise::each(x, label, out, |x, label| loss(x, label, epsilon as T))?;
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, label, dout) = (op.input("Predicted")?, op.input("Labels")?, op.input("Loss@GRAD")?);
    let (mut dx, epsilon) = (op.output("Predicted@GRAD")?, op.f64("epsilon")?);
    float_kernel!(op, "Predicted", |run, T| {
        let (x, label, dout) = (run.get::<T>(x)?, run.get(label)?, run.get(dout)?);
        let slope = |x, label| slope(x, label, epsilon as T);
        pairwise::each_grad(x, label, dout, run.set(&mut dx)?, slope)?;
    })
}

fn loss<T: Real>(x: T, label: T, epsilon: T) -> T {
    -(label * (x + epsilon).ln()) - (T::ONE - label) * (T::ONE - x + epsilon).ln()
}

fn slope<T: Real>(x: T, label: T, epsilon: T) -> T {
    (T::ONE - label) / (T::ONE - x + epsilon) - label / (x + epsilon)
}
