//! `elementwise_add`: `Out = X + Y`; a layer's bias.

use super::binary::{self, Binary, Partials};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = binary::def("elementwise_add", binary::kernel::<Add>)
    .gradient(binary::gradient::<Add>().second(second::linear))
    .split(SplitRule::Fn(binary::split_linear));

struct Add;

impl Binary for Add {
    #[inline(always)]
    fn apply<T: Number>(x: T, y: T) -> T {
        x.plus(y)
    }
}

impl Partials for Add {
    #[inline(always)]
    fn dx<T: Real>(_: T, _: T, dout: T) -> T {
        dout
    }
    #[inline(always)]
    fn dy<T: Real>(_: T, _: T, dout: T) -> T {
        dout
    }
}
