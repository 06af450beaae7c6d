//! `elementwise_div`: `Out = X / Y`; integers are cut off towards zero.

use super::binary::{self, Binary, Partials};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = binary::def("elementwise_div", binary::kernel::<Div>)
    // Paddle's programs give it `Out` too; `X` and `Y` suffice.
    .gradient(binary::gradient::<Div>().reads(&["X", "Y", "Out"]).optional(&["Out"]))
    .split(SplitRule::Fn(binary::split_scaling));

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
