//! `cos` and `sin`.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const COS: OpDef =
    unary::def("cos", |op| unary::map(op, f32::cos, f64::cos)).gradient(unary::from_x(|op| {
        unary::map_grad(op, "X", |x, dout| -dout * x.sin(), |x, dout| -dout * x.sin())
    }));

pub(super) const SIN: OpDef =
    unary::def("sin", |op| unary::map(op, f32::sin, f64::sin)).gradient(unary::from_x(|op| {
        unary::map_grad(op, "X", |x, dout| dout * x.cos(), |x, dout| dout * x.cos())
    }));
