//! `erf`: the error function.

use std::f64::consts::FRAC_2_SQRT_PI;

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("erf", |op| unary::map!(op, |x, T| Real::erf(x)))
    .gradient(unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| slope(x, dout))));

#[inline(always)]
fn slope<T: Real>(x: T, dout: T) -> T {
    dout * T::from_f64(FRAC_2_SQRT_PI) * (-(x * x)).exp()
}
