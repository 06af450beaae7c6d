//! `elementwise_max` and `elementwise_min`: the larger or smaller of two elements. When they are
//! equal, `Y` is taken and gets the gradient.

use super::binary::{self, Binary, FROM_OPERANDS, Partials};
use crate::ops::prelude::*;

pub(super) const MAX: OpDef =
    binary::def("elementwise_max", binary::kernel::<Max>).grad(FROM_OPERANDS);

pub(super) const MAX_GRAD: OpDef =
    binary::grad_def("elementwise_max_grad", binary::grad_kernel::<Max>);

pub(super) const MIN: OpDef =
    binary::def("elementwise_min", binary::kernel::<Min>).grad(FROM_OPERANDS);

pub(super) const MIN_GRAD: OpDef =
    binary::grad_def("elementwise_min_grad", binary::grad_kernel::<Min>);

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
