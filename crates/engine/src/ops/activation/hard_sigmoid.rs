//! `hard_sigmoid`: `Out = slope * X + offset`, kept between 0 and 1.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("hard_sigmoid", |op| {
    let (slope, offset) = (op.f64("slope")?, op.f64("offset")?);
    unary::map!(op, |x, T| value(x, slope as T, offset as T))
})
.attrs(&[attr::float("slope", 0.2), attr::float("offset", 0.5)])
.gradient(
    unary::from_out(|op| {
        let slope = op.f64("slope")?;
        unary::map_grad!(op, "Out", |out, dout, T| inside(out, dout * slope as T))
    })
    .second(second::self_adjoint),
);

#[inline(always)]
fn value<T: Real>(x: T, slope: T, offset: T) -> T {
    let line = slope * x + offset;
    // NaN is on neither side of a limit, and stays NaN.
    let line = if line < T::ZERO { T::ZERO } else { line };
    if line > T::ONE { T::ONE } else { line }
}

#[inline(always)]
fn inside<T: Real>(out: T, gradient: T) -> T {
    if out > T::ZERO && out < T::ONE { gradient } else { T::ZERO }
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn limits_hold_and_nan_stays() {
        assert_eq!([-9.0f32, 0.0, 9.0].map(|x| value(x, 0.25, 0.5)), [0.0, 0.5, 1.0]);
        assert!(value(f32::NAN, 0.25, 0.5).is_nan());
    }
}
