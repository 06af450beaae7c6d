//! `elementwise_pow`: `Out = X ^ Y`.

use super::binary::{self, Binary, FROM_OPERANDS, Partials};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef =
    binary::def("elementwise_pow", binary::kernel::<Pow>).grad(FROM_OPERANDS);

pub(super) const GRAD: OpDef = binary::grad_def("elementwise_pow_grad", binary::grad_kernel::<Pow>);

struct Pow;

impl Binary for Pow {
    #[inline(always)]
    fn apply<T: Number>(x: T, y: T) -> T {
        // Through double precision, so that integers need no way of their own.
        T::from_f64(x.to_f64().powf(y.to_f64()))
    }
}

impl Partials for Pow {
    #[inline(always)]
    fn dx<T: Real>(x: T, y: T, dout: T) -> T {
        dout * y * x.powf(y - T::ONE)
    }
    #[inline(always)]
    fn dy<T: Real>(x: T, y: T, dout: T) -> T {
        dout * x.ln() * x.powf(y)
    }
}
