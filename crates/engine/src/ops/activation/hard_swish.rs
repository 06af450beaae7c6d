//! `hard_swish`: `Out = X * clip(X + offset, 0, threshold) / scale`.

use super::unary;
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] =
    &[attr::float("threshold", 6.0), attr::float("scale", 6.0), attr::float("offset", 3.0)];

pub(super) const DEF: OpDef = unary::def("hard_swish", |op| {
    let curve = Curve::of(op)?;
    unary::map!(op, |x, T| curve.value(x))
})
.attrs(ATTRS)
.gradient(unary::from_x(|op| {
    let curve = Curve::of(op)?;
    unary::map_grad!(op, "X", |x, dout, T| curve.slope(x, dout))
}));

#[derive(Clone, Copy)]
struct Curve {
    threshold: f64,
    scale: f64,
    offset: f64,
}

impl Curve {
    fn of(op: &OpView<'_>) -> Result<Curve> {
        let (threshold, scale) = (op.f64("threshold")?, op.f64("scale")?);
        Ok(Curve { threshold, scale, offset: op.f64("offset")? })
    }

    #[inline(always)]
    fn value<T: Real>(self, x: T) -> T {
        let moved = x + T::from_f64(self.offset);
        let moved = if moved > T::ZERO { moved } else { T::ZERO };
        let top = T::from_f64(self.threshold);
        x * if moved < top { moved } else { top } / T::from_f64(self.scale)
    }

    #[inline(always)]
    fn slope<T: Real>(self, x: T, dout: T) -> T {
        let (moved, top) = (x + T::from_f64(self.offset), T::from_f64(self.threshold));
        if moved <= T::ZERO {
            T::ZERO
        } else if moved < top {
            dout * (x + moved) / T::from_f64(self.scale)
        } else {
            dout * top / T::from_f64(self.scale)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Curve;

    #[test]
    fn attributes_count() {
        let curve = Curve { threshold: 4.0, scale: 2.0, offset: 1.5 };
        for (x, value, slope) in [(-2.0, 0.0, 0.0), (1.0, 1.25, 1.75), (3.0, 6.0, 2.0)] {
            assert_eq!((curve.value(x), curve.slope(x, 1.0)), (value, slope), "at {x}");
        }
    }
}
