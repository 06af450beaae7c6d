//! `brelu`: `X` cut off at `t_min` and `t_max`; what `hardtanh` is made of.

use super::unary;
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[attr::float("t_min", 0.0), attr::float("t_max", 24.0)];

pub(super) const DEF: OpDef = unary::def("brelu", |op| {
    let (low, high) = (op.f64("t_min")?, op.f64("t_max")?);
    unary::map!(op, |x, T| cut(x, low as T, high as T))
})
.attrs(ATTRS)
.gradient(
    unary::from_x(|op| {
        let (low, high) = (op.f64("t_min")?, op.f64("t_max")?);
        unary::map_grad!(op, "X", |x, d, T| slope(x, d, low as T, high as T))
    })
    .second(second::self_adjoint),
);

#[inline(always)]
fn cut<T: Real>(x: T, low: T, high: T) -> T {
    let x = if x > low { x } else { low };
    if x < high { x } else { high }
}

#[inline(always)]
fn slope<T: Real>(x: T, dout: T, low: T, high: T) -> T {
    if x > low && x < high { dout } else { T::ZERO }
}
