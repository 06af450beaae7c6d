//! `sigmoid`: `Out = 1 / (1 + exp(-X))`.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef =
    unary::def("sigmoid", |op| unary::map(op, <f32 as Real>::sigmoid, <f64 as Real>::sigmoid))
        .gradient(unary::from_out(|op| unary::map_grad(op, "Out", slope::<f32>, slope::<f64>)));

#[inline(always)]
fn slope<T: Real>(out: T, dout: T) -> T {
    dout * out * (T::ONE - out)
}
