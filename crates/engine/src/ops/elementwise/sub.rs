//! `elementwise_sub`: `Out = X - Y`.

use super::binary::{self, Binary, Partials};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = binary::def("elementwise_sub", binary::kernel::<Sub>)
    .gradient(binary::gradient::<Sub>().second(second::linear))
    .split(SplitRule::Fn(binary::split_linear));

struct Sub;

impl Binary for Sub {
    #[inline(always)]
    fn apply<T: Number>(x: T, y: T) -> T {
        x.minus(y)
    }
}

impl Partials for Sub {
    #[inline(always)]
    fn dx<T: Real>(_: T, _: T, dout: T) -> T {
        dout
    }
    #[inline(always)]
    fn dy<T: Real>(_: T, _: T, dout: T) -> T {
        -dout
    }
}
