//! `sqrt` and `rsqrt`: the square root, and one over it.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const SQRT: OpDef = unary::def("sqrt", |op| unary::map!(op, |x, T| x.sqrt()))
    .gradient(unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| 0.5 * dout / out)));

pub(super) const RSQRT: OpDef = unary::def("rsqrt", |op| unary::map!(op, |x, T| rsqrt(x)))
    .gradient(unary::from_out(|op| {
        unary::map_grad!(op, "Out", |out, dout, T| rsqrt_slope(out, dout))
    }));

#[inline(always)]
fn rsqrt<T: Real>(x: T) -> T {
    T::ONE / x.sqrt()
}

#[inline(always)]
fn rsqrt_slope<T: Real>(out: T, dout: T) -> T {
    T::from_f64(-0.5) * dout * out * out * out
}
