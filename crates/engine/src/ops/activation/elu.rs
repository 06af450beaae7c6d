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
    .optional(&["Out"])
    .formula(formula),
);

/// The gradient as other ops: `alpha * exp(X)` below zero.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let (x, dout, alpha) = (f.input("X")?, f.input("Out@GRAD")?, f.op().f64("alpha")?);
    let zeros = f.filled_like(&x, 0.0);
    let below = f.mask("less_equal", &x, &zeros, &x)?;
    let above = f.affine(&below, -1.0, 1.0);
    // Cut off, so that no large element becomes infinite on the side that does not count.
    let low = f.binary("elementwise_min", &x, &zeros);
    let exp = f.unary("exp", &low);
    let exp = f.affine(&exp, alpha, 0.0);
    let curved = f.mul(&below, &exp);
    let slope = f.add(&above, &curved);
    let dx = f.mul(&dout, &slope);
    f.give("X@GRAD", &dx);
    Ok(())
}

#[inline(always)]
fn value<T: Real>(x: T, alpha: T) -> T {
    if x > T::ZERO { x } else { alpha * (x.exp() - T::ONE) }
}

#[inline(always)]
fn slope<T: Real>(x: T, dout: T, alpha: T) -> T {
    if x > T::ZERO { dout } else { dout * alpha * x.exp() }
}
