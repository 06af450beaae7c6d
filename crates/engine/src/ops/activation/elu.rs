//! `elu`: `Out = X` above zero, `alpha * (exp(X) - 1)` below.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("elu", |op| {
    let alpha = op.f64("alpha")?;
    unary::map!(op, |x, T| value(x, alpha as T))
})
.attrs(&[attr::float("alpha", 1.0)])
.gradient(
    unary::from_x(|op| {
        let alpha = op.f64("alpha")?;
        unary::map_grad!(op, "X", |x, d, T| slope(x, d, alpha as T))
    })
    // Paddle's programs give it `Out` too; `X` suffices.
    .reads(&["X", "Out"])
    .optional(&["Out"]),
);

#[inline(always)]
fn value<T: Real>(x: T, alpha: T) -> T {
    if x > T::ZERO { x } else { alpha * (x.exp() - T::ONE) }
}

#[inline(always)]
fn slope<T: Real>(x: T, dout: T, alpha: T) -> T {
    if x > T::ZERO { dout } else { dout * alpha * x.exp() }
}
