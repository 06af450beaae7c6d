//! `exp`: `e` to the power of `X`.

use super::number::Real;
use crate::op::OpDef;
use crate::ops::activation::unary::{self, FROM_OUT};

pub(super) const DEF: OpDef =
    unary::def("exp", |op| unary::map(op, <f32 as Real>::exp, <f64 as Real>::exp)).grad(FROM_OUT);

pub(super) const GRAD: OpDef = unary::grad_from_out("exp_grad", |op| {
    unary::map_grad(op, "Out", |out, dout| out * dout, |out, dout| out * dout)
});
