//! `mish`: `Out = X * tanh(ln(1 + exp(X)))`.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("mish", |op| {
    let threshold = op.f64("threshold")?;
    unary::map!(op, |x, T| value(x, threshold as T))
})
.attrs(&[attr::float("threshold", 20.0)])
.gradient(unary::from_x(|op| {
    let threshold = op.f64("threshold")?;
    unary::map_grad!(op, "X", |x, d, T| slope(x, d, threshold as T))
}));

/// `ln(1 + exp(x))`; beyond the threshold either way it is what it tends to.
#[inline(always)]
fn softplus<T: Real>(x: T, threshold: T) -> T {
    if x > threshold {
        x
    } else if x < -threshold {
        x.exp()
    } else {
        x.exp().ln_1p()
    }
}

#[inline(always)]
fn value<T: Real>(x: T, threshold: T) -> T {
    x * softplus(x, threshold).tanh()
}

#[inline(always)]
fn slope<T: Real>(x: T, dout: T, threshold: T) -> T {
    let tanh = softplus(x, threshold).tanh();
    dout * (tanh + x * (T::ONE - tanh * tanh) * x.sigmoid())
}
