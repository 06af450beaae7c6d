//! `softplus`: `Out = ln(1 + exp(beta * X)) / beta`, and `X` itself where `beta * X` exceeds
//! `threshold`.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("softplus", |op| {
    let (beta, top) = (op.f64("beta")?, op.f64("threshold")?);
    unary::map!(op, |x, T| value(x, beta as T, top as T))
})
.attrs(&[attr::float("beta", 1.0), attr::float("threshold", 20.0)])
.gradient(
    unary::from_x(|op| {
        let (beta, top) = (op.f64("beta")?, op.f64("threshold")?);
        unary::map_grad!(op, "X", |x, dout, T| slope(x, dout, beta as T, top as T))
    })
    .formula(formula),
);

/// The gradient as other ops: beyond the threshold it is 1, where a sigmoid all but is.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let (beta, threshold) = (f.op().f64("beta")?, f.op().f64("threshold")?);
    if threshold < 15.0 {
        return Err(Error::kernel(format!(
            "there is no gradient of a gradient for `softplus` with a threshold below 15, such as \
             {threshold}"
        )));
    }
    let (x, dout) = (f.input("X")?, f.input("Out@GRAD")?);
    let inner = f.affine(&x, beta, 0.0);
    let sigmoid = f.unary("sigmoid", &inner);
    let dx = f.mul(&dout, &sigmoid);
    f.give("X@GRAD", &dx);
    Ok(())
}

#[inline(always)]
fn value<T: Real>(x: T, beta: T, top: T) -> T {
    let scaled = beta * x;
    if scaled > top { x } else { scaled.exp().ln_1p() / beta }
}

#[inline(always)]
fn slope<T: Real>(x: T, dout: T, beta: T, top: T) -> T {
    let scaled = beta * x;
    if scaled > top { dout } else { dout * scaled.sigmoid() }
}
