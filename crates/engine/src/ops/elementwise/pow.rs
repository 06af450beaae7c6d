//! `elementwise_pow`: `Out = X ^ Y`.

use super::binary::{self, Binary, Partials};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef =
    binary::def("elementwise_pow", binary::kernel::<Pow>).gradient(binary::gradient::<Pow>());

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
