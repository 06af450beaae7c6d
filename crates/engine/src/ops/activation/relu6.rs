//! `relu6`: `Out = min(max(X, 0), 6)`. Paddle 1 had the 6 as an attribute.

use super::unary;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = unary::def("relu6", |op| {
    let top = op.f64("threshold")?;
    unary::map!(op, |x, T| value(x, top as T))
})
.attrs(&[attr::float("threshold", 6.0)])
.gradient(
    unary::from_out(|op| {
        let top = op.f64("threshold")?;
        unary::map_grad!(op, "Out", |out, d, T| slope(out, d, top as T))
    })
    .second(second::self_adjoint),
);

#[inline(always)]
fn value<T: Real>(x: T, top: T) -> T {
    // NaN is on neither side of a limit, and stays NaN.
    let x = if x < T::ZERO { T::ZERO } else { x };
    if x > top { top } else { x }
}

#[inline(always)]
fn slope<T: Real>(out: T, dout: T, top: T) -> T {
    if out > T::ZERO && out < top { dout } else { T::ZERO }
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn limits_hold_and_nan_stays() {
        assert_eq!([-1.0f32, 2.0, 7.0].map(|x| value(x, 6.0)), [0.0, 2.0, 6.0]);
        assert!(value(f32::NAN, 6.0).is_nan());
    }
}
