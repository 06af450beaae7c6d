//! `leaky_relu`: `Out = X` above zero, `alpha * X` below.

use super::unary::{self, FROM_X};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("leaky_relu", |op| {
    let alpha = op.f64("alpha")?;
    unary::map(op, move |x| slope(x, x, alpha as f32), move |x| slope(x, x, alpha))
})
.attrs(&[attr::float("alpha", 0.02)])
.grad(FROM_X);

pub(super) const GRAD: OpDef = unary::grad_from_x("leaky_relu_grad", |op| {
    let alpha = op.f64("alpha")?;
    unary::map_grad(op, "X", move |x, d| slope(x, d, alpha as f32), move |x, d| slope(x, d, alpha))
})
.attrs(&[attr::float("alpha", 0.02)]);

/// What the function does to `x` and to its gradient alike.
#[inline(always)]
fn slope<T: Real>(x: T, value: T, alpha: T) -> T {
    if x < T::ZERO { alpha * value } else { value }
}
