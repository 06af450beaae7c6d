//! `cos` and `sin`.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const COS: OpDef = unary::def("cos", |op| unary::map!(op, |x, T| x.cos()))
    .gradient(unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| -dout * x.sin())));

pub(super) const SIN: OpDef = unary::def("sin", |op| unary::map!(op, |x, T| x.sin()))
    .gradient(unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| dout * x.cos())));
