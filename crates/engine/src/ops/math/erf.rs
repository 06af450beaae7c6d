//! `erf`: the error function.

use std::f64::consts::FRAC_2_SQRT_PI;

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("erf", |op| unary::map!(op, |x, T| Real::erf(x)))
    .gradient(unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| slope(x, dout))).formula(
        |f| {
            unary::formula(f, "X", |f, x| {
                let square = f.mul(x, x);
                let exponent = f.affine(&square, -1.0, 0.0);
                let exp = f.unary("exp", &exponent);
                f.affine(&exp, FRAC_2_SQRT_PI, 0.0)
            })
        },
    ));

#[inline(always)]
fn slope<T: Real>(x: T, dout: T) -> T {
    dout * T::from_f64(FRAC_2_SQRT_PI) * (-(x * x)).exp()
}
