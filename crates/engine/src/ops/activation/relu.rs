//! `relu`: `Out = max(X, 0)`.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("relu", |op| unary::map(op, value::<f32>, value::<f64>))
    .gradient(unary::from_out(|op| unary::map_grad(op, "Out", slope::<f32>, slope::<f64>)));

#[inline(always)]
fn value<T: Real>(x: T) -> T {
    if x > T::ZERO { x } else { T::ZERO }
}

#[inline(always)]
fn slope<T: Real>(out: T, dout: T) -> T {
    if out > T::ZERO { dout } else { T::ZERO }
}
