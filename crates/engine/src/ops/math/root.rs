//! `sqrt` and `rsqrt`: the square root, and one over it.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const SQRT: OpDef = unary::def("sqrt", |op| unary::map(op, f32::sqrt, f64::sqrt))
    .gradient(unary::from_out(|op| {
        unary::map_grad(op, "Out", |out, dout| 0.5 * dout / out, |out, dout| 0.5 * dout / out)
    }));

pub(super) const RSQRT: OpDef =
    unary::def("rsqrt", |op| unary::map(op, rsqrt::<f32>, rsqrt::<f64>)).gradient(unary::from_out(
        |op| unary::map_grad(op, "Out", rsqrt_slope::<f32>, rsqrt_slope::<f64>),
    ));

#[inline(always)]
fn rsqrt<T: Real>(x: T) -> T {
    T::ONE / x.sqrt()
}

#[inline(always)]
fn rsqrt_slope<T: Real>(out: T, dout: T) -> T {
    T::from_f64(-0.5) * dout * out * out * out
}
