//! `elementwise_max` and `elementwise_min`: the larger or smaller of two elements. When they are
//! equal, `Y` is taken and gets the gradient.

use super::binary::{self, Binary, Partials};
use crate::ops::prelude::*;

pub(super) const MAX: OpDef = binary::def("elementwise_max", binary::kernel::<Max>)
    .gradient(binary::gradient::<Max>().formula(|f| formula(f, "greater_than")));

pub(super) const MIN: OpDef = binary::def("elementwise_min", binary::kernel::<Min>)
    .gradient(binary::gradient::<Min>().formula(|f| formula(f, "less_than")));

/// The gradient as other ops: it goes to `X` where `comparison` holds, and to `Y` elsewhere.
fn formula(f: &mut Formula<'_>, comparison: &str) -> Result<()> {
    let (x, y, dout) = (f.input("X")?, f.input("Y")?, f.input("Out@GRAD")?);
    let axis = f.op().attr("axis")?;
    let holds = f.mask_along(comparison, &x, &y, axis.clone(), &x)?;
    if f.wants("X@GRAD") {
        let part = f.mul(&dout, &holds);
        let dx = f.summed_to("X@GRAD", &x, &y, &part, axis.clone());
        f.give("X@GRAD", &dx);
    }
    if f.wants("Y@GRAD") {
        let rest = f.affine(&holds, -1.0, 1.0);
        let part = f.mul(&dout, &rest);
        let dy = f.summed_to("Y@GRAD", &x, &y, &part, axis);
        f.give("Y@GRAD", &dy);
    }
    Ok(())
}

struct Max;

impl Binary for Max {
    #[inline(always)]
    fn apply<T: Number>(x: T, y: T) -> T {
        if x > y { x } else { y }
    }
}

impl Partials for Max {
    #[inline(always)]
    fn dx<T: Real>(x: T, y: T, dout: T) -> T {
        if x > y { dout } else { T::ZERO }
    }
    #[inline(always)]
    fn dy<T: Real>(x: T, y: T, dout: T) -> T {
        if x > y { T::ZERO } else { dout }
    }
}

struct Min;

impl Binary for Min {
    #[inline(always)]
    fn apply<T: Number>(x: T, y: T) -> T {
        if x < y { x } else { y }
    }
}

impl Partials for Min {
    #[inline(always)]
    fn dx<T: Real>(x: T, y: T, dout: T) -> T {
        if x < y { dout } else { T::ZERO }
    }
    #[inline(always)]
    fn dy<T: Real>(x: T, y: T, dout: T) -> T {
        if x < y { T::ZERO } else { dout }
    }
}
