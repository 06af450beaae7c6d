//! `swish` and `silu`: `Out = X * sigmoid(beta * X)`; `silu` has no `beta`.

use super::unary;
use crate::ops::prelude::*;

/// Paddle 1 let `beta` be chosen.
pub(super) const SWISH: OpDef = unary::def("swish", |op| {
    let beta = op.f64("beta")?;
    unary::map!(op, |x, T| value(x, beta as T))
})
.attrs(&[attr::float("beta", 1.0)])
.gradient(
    unary::from_x(|op| {
        let beta = op.f64("beta")?;
        unary::map_grad!(op, "X", |x, d, T| slope(x, d, beta as T))
    })
    .formula(|f| formula(f, f.op().f64("beta")?)),
);

pub(super) const SILU: OpDef = unary::def("silu", |op| unary::map!(op, |x, T| value(x, 1.0)))
    .gradient(
        unary::from_x(|op| unary::map_grad!(op, "X", |x, d, T| slope(x, d, 1.0)))
            // Paddle's programs give it `Out` too; `X` suffices.
            .reads(&["X", "Out"])
            .optional(&["Out"])
            .formula(|f| formula(f, 1.0)),
    );

/// The gradient as other ops.
fn formula(f: &mut Formula<'_>, beta: f64) -> Result<()> {
    let (x, dout) = (f.input("X")?, f.input("Out@GRAD")?);
    let inner = f.affine(&x, beta, 0.0);
    let sigmoid = f.unary("sigmoid", &inner);
    let rest = f.affine(&sigmoid, -1.0, 1.0);
    let bend = f.mul(&inner, &rest);
    let bend = f.affine(&bend, 1.0, 1.0);
    let slope = f.mul(&sigmoid, &bend);
    let dx = f.mul(&dout, &slope);
    f.give("X@GRAD", &dx);
    Ok(())
}

#[inline(always)]
fn value<T: Real>(x: T, beta: T) -> T {
    x * (beta * x).sigmoid()
}

#[inline(always)]
fn slope<T: Real>(x: T, dout: T, beta: T) -> T {
    let sigmoid = (beta * x).sigmoid();
    dout * sigmoid * (T::ONE + beta * x * (T::ONE - sigmoid))
}
