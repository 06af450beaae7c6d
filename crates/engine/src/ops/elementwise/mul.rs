//! `elementwise_mul`: `Out = X * Y`; `X` may be selected rows when `Y` is one number.

use super::binary::{self, Binary, FROM_OPERANDS, Partials};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = binary::def("elementwise_mul", binary::kernel::<Mul>)
    .grad(FROM_OPERANDS)
    .split(SplitRule::Fn(binary::split_scaling));

pub(super) const GRAD: OpDef = binary::grad_def("elementwise_mul_grad", binary::grad_kernel::<Mul>);

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
