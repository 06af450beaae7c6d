//! `swish` and `silu`: `Out = X * sigmoid(beta * X)`; `silu` has no `beta`.

use super::unary::{self, FROM_X};
use crate::ops::prelude::*;

/// Paddle 1 let `beta` be chosen.
pub(super) const SWISH: OpDef = unary::def("swish", |op| {
    let beta = op.f64("beta")?;
    unary::map(op, move |x| value(x, beta as f32), move |x| value(x, beta))
})
.attrs(&[attr::float("beta", 1.0)])
.grad(FROM_X);

pub(super) const SWISH_GRAD: OpDef = unary::grad_from_x("swish_grad", |op| {
    let beta = op.f64("beta")?;
    unary::map_grad(op, "X", move |x, d| slope(x, d, beta as f32), move |x, d| slope(x, d, beta))
})
.attrs(&[attr::float("beta", 1.0)]);

pub(super) const SILU: OpDef =
    unary::def("silu", |op| unary::map(op, |x| value(x, 1.0f32), |x| value(x, 1.0f64)))
        .grad(GradRule::Op { inputs: &["X"], outputs: &["Out"] });

/// Paddle's programs give it `Out` too; `X` suffices.
pub(super) const SILU_GRAD: OpDef = unary::grad_from_x("silu_grad", |op| {
    unary::map_grad(op, "X", |x, d| slope(x, d, 1.0f32), |x, d| slope(x, d, 1.0f64))
})
.inputs(&[Slot::one("X"), Slot::maybe("Out"), Slot::one("Out@GRAD")]);

#[inline(always)]
fn value<T: Real>(x: T, beta: T) -> T {
    x * (beta * x).sigmoid()
}

#[inline(always)]
fn slope<T: Real>(x: T, dout: T, beta: T) -> T {
    let sigmoid = (beta * x).sigmoid();
    dout * sigmoid * (T::ONE + beta * x * (T::ONE - sigmoid))
}
