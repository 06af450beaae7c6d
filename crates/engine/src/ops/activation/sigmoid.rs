//! `sigmoid`: `Out = 1 / (1 + exp(-X))`.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("sigmoid", |op| unary::map!(op, |x, T| Real::sigmoid(x)))
    .gradient(
        unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| slope(out, dout))).formula(
            |f| {
                unary::formula(f, "Out", |f, out| {
                    let rest = f.affine(out, -1.0, 1.0);
                    f.mul(out, &rest)
                })
            },
        ),
    );

#[inline(always)]
fn slope<T: Real>(out: T, dout: T) -> T {
    dout * out * (T::ONE - out)
}
