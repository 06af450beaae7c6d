//! `elementwise_div`: `Out = X / Y`; integers are cut off towards zero.

use super::binary::{self, Binary, Partials};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = binary::def("elementwise_div", binary::kernel::<Div>)
    // Paddle's programs give it `Out` too; `X` and `Y` suffice.
    .gradient(
        binary::gradient::<Div>().reads(&["X", "Y", "Out"]).optional(&["Out"]).formula(formula),
    )
    .split(SplitRule::Fn(binary::split_scaling));

/// The gradient as other ops: `dout / y` and `-dout * x / y²`.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let (x, y, dout) = (f.input("X")?, f.input("Y")?, f.input("Out@GRAD")?);
    let axis = f.op().attr("axis")?;
    let along = [("axis", axis.clone())];
    let share = f.apply("elementwise_div", &[("X", &dout), ("Y", &y)], &along);
    if f.wants("X@GRAD") {
        let dx = f.summed_to("X@GRAD", &x, &y, &share, axis.clone());
        f.give("X@GRAD", &dx);
    }
    if f.wants("Y@GRAD") {
        let ratio = f.apply("elementwise_div", &[("X", &x), ("Y", &y)], &along);
        let product = f.mul(&share, &ratio);
        let sum = f.summed_to("Y@GRAD", &x, &y, &product, axis);
        let dy = f.affine(&sum, -1.0, 0.0);
        f.give("Y@GRAD", &dy);
    }
    Ok(())
}

struct Div;

impl Binary for Div {
    const DIVIDES: bool = true;

    #[inline(always)]
    fn apply<T: Number>(x: T, y: T) -> T {
        x.over(y)
    }
}

impl Partials for Div {
    #[inline(always)]
    fn dx<T: Real>(_: T, y: T, dout: T) -> T {
        dout / y
    }
    #[inline(always)]
    fn dy<T: Real>(x: T, y: T, dout: T) -> T {
        -dout * (x / y / y)
    }
}
