//! `elu`: `Out = X` above zero, `alpha * (exp(X) - 1)` below.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("elu", |op| {
    let alpha = op.f64("alpha")?;
    unary::map(op, move |x| value(x, alpha as f32), move |x| value(x, alpha))
})
.attrs(&[attr::float("alpha", 1.0)])
.grad(GradRule::Op { inputs: &["X"], outputs: &["Out"] });

/// Paddle's programs give it `Out` too; `X` suffices.
pub(super) const GRAD: OpDef = unary::grad_from_x("elu_grad", |op| {
    let alpha = op.f64("alpha")?;
    unary::map_grad(op, "X", move |x, d| slope(x, d, alpha as f32), move |x, d| slope(x, d, alpha))
})
.inputs(&[Slot::one("X"), Slot::maybe("Out"), Slot::one("Out@GRAD")])
.attrs(&[attr::float("alpha", 1.0)]);

#[inline(always)]
fn value<T: Real>(x: T, alpha: T) -> T {
    if x > T::ZERO { x } else { alpha * (x.exp() - T::ONE) }
}

#[inline(always)]
fn slope<T: Real>(x: T, dout: T, alpha: T) -> T {
    if x > T::ZERO { dout } else { dout * alpha * x.exp() }
}
