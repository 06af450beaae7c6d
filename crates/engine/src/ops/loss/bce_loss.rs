//! `bce_loss`: binary cross-entropy of probabilities, `-(y ln x + (1 - y) ln(1 - x))`.

use super::pairwise;
use crate::Result;
use crate::op::{GradRule, Infer, OpDef, Slot, SplitRule};
use crate::ops::real::Real;

pub(super) const DEF: OpDef =
    OpDef::new("bce_loss", |op| pairwise::map(op, ["X", "Label", "Out"], loss::<f32>, loss::<f64>))
        .inputs(&[Slot::one("X"), Slot::one("Label")])
        .outputs(&[Slot::one("Out")])
        .infer(infer)
        .lod_from("X")
        .grad(GradRule::Op { inputs: &["X", "Label"], outputs: &[] })
        .split(SplitRule::RowWise);

pub(super) const GRAD: OpDef = OpDef::new("bce_loss_grad", |op| {
    pairwise::map_grad(op, ["X", "Label", "Out@GRAD", "X@GRAD"], slope::<f32>, slope::<f64>)
})
.inputs(&[Slot::one("X"), Slot::one("Label"), Slot::one("Out@GRAD")])
.outputs(&[Slot::one("X@GRAD")])
.like(&[("X@GRAD", "X")])
.split(SplitRule::RowWise);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    pairwise::same_shape(cx, "X", "Label")?;
    cx.like(&[("Out", "X")])
}

/// Logarithms stop at -100, as Paddle's do, so that a sure but wrong prediction costs a finite
/// amount.
fn loss<T: Real>(x: T, label: T) -> T {
    let floor = T::from_f64(-100.0);
    let miss = label - T::ONE;
    miss * (-x).ln_1p().max(floor) - label * x.ln().max(floor)
}

fn slope<T: Real>(x: T, label: T) -> T {
    (x - label) / ((T::ONE - x) * x).max(T::from_f64(1e-12))
}
