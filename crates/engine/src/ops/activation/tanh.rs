//! `tanh`: the hyperbolic tangent.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("tanh", |op| unary::map!(op, |x, T| Real::tanh(x)))
    .gradient(
        unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| slope(out, dout))).formula(
            |f| {
                unary::formula(f, "Out", |f, out| {
                    let square = f.mul(out, out);
                    f.affine(&square, -1.0, 1.0)
                })
            },
        ),
    );

#[inline(always)]
fn slope<T: Real>(out: T, dout: T) -> T {
    dout * (T::ONE - out * out)
}
