//! `hard_swish`: `Out = X * clip(X + offset, 0, threshold) / scale`.

use super::unary;
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] =
    &[attr::float("threshold", 6.0), attr::float("scale", 6.0), attr::float("offset", 3.0)];

pub(super) const DEF: OpDef = unary::def("hard_swish", |op| {
    let (single, double) = (Curve::<f32>::of(op)?, Curve::<f64>::of(op)?);
    unary::map(op, move |x| single.value(x), move |x| double.value(x))
})
.attrs(ATTRS)
.gradient(unary::from_x(|op| {
    let (single, double) = (Curve::<f32>::of(op)?, Curve::<f64>::of(op)?);
    unary::map_grad(op, "X", move |x, d| single.slope(x, d), move |x, d| double.slope(x, d))
}));

struct Curve<T> {
    threshold: T,
    scale: T,
    offset: T,
}

impl<T: Real> Curve<T> {
    fn of(op: &OpView<'_>) -> Result<Curve<T>> {
        let get = |name| op.f64(name).map(T::from_f64);
        Ok(Curve { threshold: get("threshold")?, scale: get("scale")?, offset: get("offset")? })
    }

    #[inline(always)]
    fn value(&self, x: T) -> T {
        let moved = x + self.offset;
        let moved = if moved > T::ZERO { moved } else { T::ZERO };
        x * if moved < self.threshold { moved } else { self.threshold } / self.scale
    }

    #[inline(always)]
    fn slope(&self, x: T, dout: T) -> T {
        let moved = x + self.offset;
        if moved <= T::ZERO {
            T::ZERO
        } else if moved < self.threshold {
            dout * (x + moved) / self.scale
        } else {
            dout * self.threshold / self.scale
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
