//! `exp`: `e` to the power of `X`, and `expm1`, one less.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("exp", |op| unary::map!(op, |x, T| Real::exp(x)))
    .gradient(unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| out * dout)));

pub(super) const EXPM1: OpDef = unary::def("expm1", |op| unary::map!(op, |x, T| x.exp_m1()))
    .gradient(unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| dout * (out + 1.0))));
