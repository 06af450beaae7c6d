//! `exp`: `e` to the power of `X`, and `expm1`, one less.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef =
    unary::def("exp", |op| unary::map(op, <f32 as Real>::exp, <f64 as Real>::exp)).gradient(
        unary::from_out(|op| {
            unary::map_grad(op, "Out", |out, dout| out * dout, |out, dout| out * dout)
        }),
    );

pub(super) const EXPM1: OpDef = unary::def("expm1", |op| unary::map(op, f32::exp_m1, f64::exp_m1))
    .gradient(unary::from_out(|op| {
        unary::map_grad(op, "Out", |out, dout| dout * (out + 1.0), |out, dout| dout * (out + 1.0))
    }));
