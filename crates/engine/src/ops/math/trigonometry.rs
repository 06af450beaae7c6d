//! `cos` and `sin`.

use crate::ops::activation::unary::{self, FROM_X};
use crate::ops::prelude::*;

pub(super) const COS: OpDef =
    unary::def("cos", |op| unary::map(op, f32::cos, f64::cos)).grad(FROM_X);

pub(super) const COS_GRAD: OpDef = unary::grad_from_x("cos_grad", |op| {
    unary::map_grad(op, "X", |x, dout| -dout * x.sin(), |x, dout| -dout * x.sin())
});

pub(super) const SIN: OpDef =
    unary::def("sin", |op| unary::map(op, f32::sin, f64::sin)).grad(FROM_X);

pub(super) const SIN_GRAD: OpDef = unary::grad_from_x("sin_grad", |op| {
    unary::map_grad(op, "X", |x, dout| dout * x.cos(), |x, dout| dout * x.cos())
});
