//! `elementwise_div`: `Out = X / Y`; integers are cut off towards zero.

use super::binary::{self, Binary, Partials};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = binary::def("elementwise_div", binary::kernel::<Div>)
    .grad(GradRule::Op { inputs: &["X", "Y"], outputs: &["Out"] })
    .split(SplitRule::Fn(binary::split_scaling));

/// Paddle's programs give it `Out` too; `X` and `Y` suffice.
pub(super) const GRAD: OpDef = binary::grad_def("elementwise_div_grad", binary::grad_kernel::<Div>)
    .inputs(&[Slot::one("X"), Slot::one("Y"), Slot::maybe("Out"), Slot::one("Out@GRAD")]);

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
