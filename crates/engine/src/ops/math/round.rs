//! `floor`, `ceil` and `round`: step functions, whose gradients are zero.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const FLOOR: OpDef =
    unary::def("floor", |op| unary::map(op, f32::floor, f64::floor)).grad(ZERO);
pub(super) const FLOOR_GRAD: OpDef = zero_def("floor_grad");

pub(super) const CEIL: OpDef =
    unary::def("ceil", |op| unary::map(op, f32::ceil, f64::ceil)).grad(ZERO);
pub(super) const CEIL_GRAD: OpDef = zero_def("ceil_grad");

/// Halves go away from zero, as in Paddle; numpy rounds them to even.
pub(super) const ROUND: OpDef =
    unary::def("round", |op| unary::map(op, f32::round, f64::round)).grad(ZERO);
pub(super) const ROUND_GRAD: OpDef = zero_def("round_grad");

const ZERO: GradRule = GradRule::Op { inputs: &[], outputs: &[] };

const fn zero_def(name: &'static str) -> OpDef {
    OpDef::new(name, zero)
        .inputs(const { &[Slot::one("Out@GRAD")] })
        .outputs(const { &[Slot::one("X@GRAD")] })
        .like(&[("X@GRAD", "Out@GRAD")])
        .split(SplitRule::RowWise)
}

fn zero(op: &OpView<'_>) -> Result<Kernel> {
    let dx = op.output("X@GRAD")?;
    Ok(Box::new(move |run| {
        let dtype = run.out(dx)?.dtype();
        dispatch!(dtype, T in [f32, f64] => {
            run.set::<T>(dx)?.fill(0.0);
            Ok(())
        }, else => Err(Error::kernel(format!("gradients are float32 or float64, not {dtype}"))))
    }))
}
