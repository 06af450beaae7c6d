//! `leaky_relu`: `Out = X` above zero, `alpha * X` below.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("leaky_relu", |op| {
    let alpha = op.f64("alpha")?;
    unary::map!(op, |x, T| slope(x, x, alpha as T))
})
.attrs(&[attr::float("alpha", 0.02)])
.gradient(
    unary::from_x(|op| {
        let alpha = op.f64("alpha")?;
        unary::map_grad!(op, "X", |x, d, T| slope(x, d, alpha as T))
    })
    .second(second::self_adjoint),
);

/// What the function does to `x` and to its gradient alike.
#[inline(always)]
fn slope<T: Real>(x: T, value: T, alpha: T) -> T {
    if x < T::ZERO { alpha * value } else { value }
}
