//! `log`, `log1p`, `log2` and `log10`: logarithms.

use std::f64::consts::{LN_2, LN_10};

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const LOG: OpDef = unary::def("log", |op| unary::map!(op, |x, T| x.ln())).gradient(
    unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| dout / x))
        .formula(|f| unary::formula(f, "X", |f, x| f.unary("reciprocal", x))),
);

pub(super) const LOG1P: OpDef = unary::def("log1p", |op| unary::map!(op, |x, T| x.ln_1p()))
    .gradient(
        unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| dout / (x + 1.0))).formula(|f| {
            unary::formula(f, "X", |f, x| {
                let below = f.affine(x, 1.0, 1.0);
                f.unary("reciprocal", &below)
            })
        }),
    );

pub(super) const LOG2: OpDef = unary::def("log2", |op| unary::map!(op, |x, T| x.log2())).gradient(
    unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| log2_slope(x, dout))).formula(|f| {
        unary::formula(f, "X", |f, x| {
            let below = f.affine(x, LN_2, 0.0);
            f.unary("reciprocal", &below)
        })
    }),
);

#[inline(always)]
fn log2_slope<T: Real>(x: T, dout: T) -> T {
    dout / (x * T::from_f64(LN_2))
}

pub(super) const LOG10: OpDef = unary::def("log10", |op| unary::map!(op, |x, T| x.log10()))
    .gradient(
        unary::from_x(|op| unary::map_grad!(op, "X", |x, dout, T| log10_slope(x, dout))).formula(
            |f| {
                unary::formula(f, "X", |f, x| {
                    let below = f.affine(x, LN_10, 0.0);
                    f.unary("reciprocal", &below)
                })
            },
        ),
    );

#[inline(always)]
fn log10_slope<T: Real>(x: T, dout: T) -> T {
    dout / (x * T::from_f64(LN_10))
}
