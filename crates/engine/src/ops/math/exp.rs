//! `exp`: `e` to the power of `X`, and `expm1`, one less.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("exp", |op| unary::map!(op, |x, T| Real::exp(x)))
    .gradient(
        unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| out * dout))
            .formula(|f| unary::formula(f, "Out", |f, out| f.affine(out, 1.0, 0.0))),
    );

pub(super) const EXPM1: OpDef = unary::def("expm1", |op| unary::map!(op, |x, T| x.exp_m1()))
    .gradient(
        unary::from_out(|op| unary::map_grad!(op, "Out", |out, dout, T| dout * (out + 1.0)))
            .formula(|f| unary::formula(f, "Out", |f, out| f.affine(out, 1.0, 1.0))),
    );
