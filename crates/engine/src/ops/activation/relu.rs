//! `relu`: `Out = max(X, 0)`.

use super::unary;
use crate::op::{GradRule, OpDef, Slot, SplitRule};

pub(super) const DEF: OpDef =
    OpDef::new("relu", |op| unary::map(op, |x| x.max(0.0), |x| x.max(0.0)))
        .inputs(&[Slot::one("X")])
        .outputs(&[Slot::one("Out")])
        .like(&[("Out", "X")])
        .lod_from("X")
        .grad(GradRule::Op { inputs: &[], outputs: &["Out"] })
        .split(SplitRule::RowWise);

pub(super) const GRAD: OpDef = OpDef::new("relu_grad", |op| {
    unary::map_grad(
        op,
        "Out",
        |out, dout| if out > 0.0 { dout } else { 0.0 },
        |out, dout| if out > 0.0 { dout } else { 0.0 },
    )
})
.inputs(&[Slot::one("Out"), Slot::one("Out@GRAD")])
.outputs(&[Slot::one("X@GRAD")])
.like(&[("X@GRAD", "Out")])
.split(SplitRule::RowWise);
