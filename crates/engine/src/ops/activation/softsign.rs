//! `softsign`: `Out = X / (1 + |X|)`.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("softsign", |op| unary::map!(op, |x, T| value(x)))
    .gradient(unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| slope(x, dout))).formula(
        |f| {
            unary::formula(f, "X", |f, x| {
                let size = f.unary("abs", x);
                let below = f.affine(&size, 1.0, 1.0);
                f.pow(&below, -2.0)
            })
        },
    ));

#[inline(always)]
fn value<T: Real>(x: T) -> T {
    x / (T::ONE + x.magnitude())
}

#[inline(always)]
fn slope<T: Real>(x: T, dout: T) -> T {
    let below = T::ONE + x.magnitude();
    dout / (below * below)
}
