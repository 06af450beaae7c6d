//! `elementwise_mul`: `Out = X * Y`; `X` may be selected rows when `Y` is one number.

use super::binary::{self, Binary, Partials};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = binary::def("elementwise_mul", binary::kernel::<Mul>)
    .gradient(binary::gradient::<Mul>().second(second::product))
    .split(SplitRule::Fn(binary::split_scaling));

struct Mul;

impl Binary for Mul {
    #[inline(always)]
    fn apply<T: Number>(x: T, y: T) -> T {
        x.times(y)
    }
}

impl Partials for Mul {
    #[inline(always)]
    fn dx<T: Real>(_: T, y: T, dout: T) -> T {
        dout * y
    }
    #[inline(always)]
    fn dy<T: Real>(x: T, _: T, dout: T) -> T {
        dout * x
    }
}
