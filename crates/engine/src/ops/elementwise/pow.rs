//! `elementwise_pow`: `Out = X ^ Y`.

use super::binary::{self, Binary, Partials};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = binary::def("elementwise_pow", binary::kernel::<Pow>)
    .gradient(binary::gradient::<Pow>().formula(formula));

/// The gradient as other ops: `dout * y * x ^ (y - 1)` and `dout * ln(x) * x ^ y`.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let (x, y, dout) = (f.input("X")?, f.input("Y")?, f.input("Out@GRAD")?);
    let axis = f.op().attr("axis")?;
    let along = [("axis", axis.clone())];
    if f.wants("X@GRAD") {
        let lower = f.affine(&y, 1.0, -1.0);
        let power = f.apply("elementwise_pow", &[("X", &x), ("Y", &lower)], &along);
        let slope = f.apply("elementwise_mul", &[("X", &power), ("Y", &y)], &along);
        let product = f.mul(&dout, &slope);
        let dx = f.summed_to("X@GRAD", &x, &y, &product, axis.clone());
        f.give("X@GRAD", &dx);
    }
    if f.wants("Y@GRAD") {
        let (out, log) =
            (f.apply("elementwise_pow", &[("X", &x), ("Y", &y)], &along), f.unary("log", &x));
        let slope = f.apply("elementwise_mul", &[("X", &out), ("Y", &log)], &[]);
        let product = f.mul(&dout, &slope);
        let dy = f.summed_to("Y@GRAD", &x, &y, &product, axis);
        f.give("Y@GRAD", &dy);
    }
    Ok(())
}

struct Pow;

impl Binary for Pow {
    #[inline(always)]
    fn apply<T: Number>(x: T, y: T) -> T {
        // Through double precision, so that integers need no way of their own.
        T::from_f64(x.to_f64().powf(y.to_f64()))
    }
}

impl Partials for Pow {
    #[inline(always)]
    fn dx<T: Real>(x: T, y: T, dout: T) -> T {
        dout * y * x.powf(y - T::ONE)
    }
    #[inline(always)]
    fn dy<T: Real>(x: T, y: T, dout: T) -> T {
        dout * x.ln() * x.powf(y)
    }
}
