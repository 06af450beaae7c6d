//! `cos` and `sin`.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const COS: OpDef = unary::def("cos", |op| unary::map!(op, |x, T| x.cos())).gradient(
    unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| -dout * x.sin())).formula(|f| {
        unary::formula(f, "X", |f, x| {
            let sin = f.unary("sin", x);
            f.affine(&sin, -1.0, 0.0)
        })
    }),
);

pub(super) const SIN: OpDef = unary::def("sin", |op| unary::map!(op, |x, T| x.sin())).gradient(
    unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| dout * x.cos()))
        .formula(|f| unary::formula(f, "X", |f, x| f.unary("cos", x))),
);
