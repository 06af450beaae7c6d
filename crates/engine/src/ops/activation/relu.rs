//! `relu`: `Out = max(X, 0)`.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("relu", |op| unary::map!(op, |x, T| value(x))).gradient(
    unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| slope(out, dout)))
        .second(second::self_adjoint),
);

#[inline(always)]
fn value<T: Real>(x: T) -> T {
    if x > T::ZERO { x } else { T::ZERO }
}

#[inline(always)]
fn slope<T: Real>(out: T, dout: T) -> T {
    if out > T::ZERO { dout } else { T::ZERO }
}
