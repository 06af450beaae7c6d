//! `elementwise_max` and `elementwise_min`: the larger or smaller of two elements. When they are
//! equal, `Y` is taken and gets the gradient.

use super::binary::{self, Binary, Partials};
use crate::ops::prelude::*;

pub(super) const MAX: OpDef =
    binary::def("elementwise_max", binary::kernel::<Max>).gradient(binary::gradient::<Max>());

pub(super) const MIN: OpDef =
    binary::def("elementwise_min", binary::kernel::<Min>).gradient(binary::gradient::<Min>());

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
