//! `sqrt` and `rsqrt`: the square root, and one over it.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const SQRT: OpDef = unary::def("sqrt", |op| unary::map!(op, |x, T| x.sqrt())).gradient(
    unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| 0.5 * dout / out)).formula(
        |f| {
            unary::formula(f, "Out", |f, out| {
                let inverse = f.unary("reciprocal", out);
                f.affine(&inverse, 0.5, 0.0)
            })
        },
    ),
);

pub(super) const RSQRT: OpDef = unary::def("rsqrt", |op| unary::map!(op, |x, T| rsqrt(x)))
    .gradient(
        unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| rsqrt_slope(out, dout)))
            .formula(|f| {
                unary::formula(f, "Out", |f, out| {
                    let cube = f.pow(out, 3.0);
                    f.affine(&cube, -0.5, 0.0)
                })
            }),
    );

#[inline(always)]
fn rsqrt<T: Real>(x: T) -> T {
    T::ONE / x.sqrt()
}

#[inline(always)]
fn rsqrt_slope<T: Real>(out: T, dout: T) -> T {
    T::from_f64(-0.5) * dout * out * out * out
}
