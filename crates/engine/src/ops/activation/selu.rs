//! `selu`: `Out = scale * X` above zero, `scale * alpha * (exp(X) - 1)` below.

use super::unary;
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[attr::float("scale", 1.050_701), attr::float("alpha", 1.673_263_2)];

pub(super) const DEF: OpDef = unary::def("selu", |op| {
    let (scale, alpha) = factors(op)?;
    unary::map!(op, |x, T| value(x, scale as T, alpha as T))
})
.attrs(ATTRS)
.gradient(unary::from_out(|op| {
    let (scale, alpha) = factors(op)?;
    unary::map_grad!(op, "Out", |out, d, T| slope(out, d, scale as T, alpha as T))
}));

fn factors(op: &OpView<'_>) -> Result<(f64, f64)> {
    Ok((op.f64("scale")?, op.f64("alpha")?))
}

#[inline(always)]
fn value<T: Real>(x: T, scale: T, alpha: T) -> T {
    scale * if x > T::ZERO { x } else { alpha * (x.exp() - T::ONE) }
}

#[inline(always)]
fn slope<T: Real>(out: T, dout: T, scale: T, alpha: T) -> T {
    // Below zero, `out + scale * alpha` is what the exponential alone would give.
    dout * if out > T::ZERO { scale } else { out + scale * alpha }
}
