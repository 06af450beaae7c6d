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
    let epsilon = op.f64("epsilon")?;
    pairwise::map(
        op,
        ["Predicted", "Labels", "Loss"],
        move |x, label| loss(x, label, epsilon as f32),
        move |x, label| loss(x, label, epsilon),
    )
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let epsilon = op.f64("epsilon")?;
    pairwise::map_grad(
        op,
        ["Predicted", "Labels", "Loss@GRAD", "Predicted@GRAD"],
        move |x, label| slope(x, label, epsilon as f32),
        move |x, label| slope(x, label, epsilon),
    )
}

fn loss<T: Real>(x: T, label: T, epsilon: T) -> T {
    -(label * (x + epsilon).ln()) - (T::ONE - label) * (T::ONE - x + epsilon).ln()
}

fn slope<T: Real>(x: T, label: T, epsilon: T) -> T {
    (T::ONE - label) / (T::ONE - x + epsilon) - label / (x + epsilon)
}
