//! `tanh`: the hyperbolic tangent.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef =
    unary::def("tanh", |op| unary::map(op, <f32 as Real>::tanh, <f64 as Real>::tanh))
        .gradient(unary::from_out(|op| unary::map_grad(op, "Out", slope::<f32>, slope::<f64>)));

#[inline(always)]
fn slope<T: Real>(out: T, dout: T) -> T {
    dout * (T::ONE - out * out)
}
