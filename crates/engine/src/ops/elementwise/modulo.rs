//! `elementwise_mod` and `elementwise_floordiv`: quotients rounded down, and what they leave.
//! Neither has a gradient.

use super::binary::{self, Binary};
use crate::ops::prelude::*;

pub(super) const MOD: OpDef = binary::def("elementwise_mod", binary::kernel::<Mod>);

pub(super) const FLOORDIV: OpDef = binary::def("elementwise_floordiv", binary::kernel::<FloorDiv>);

struct Mod;

impl Binary for Mod {
    const DIVIDES: bool = true;

    #[inline(always)]
    fn apply<T: Number>(x: T, y: T) -> T {
        x.modulo(y)
    }
}

struct FloorDiv;

impl Binary for FloorDiv {
    const DIVIDES: bool = true;

    #[inline(always)]
    fn apply<T: Number>(x: T, y: T) -> T {
        x.floor_over(y)
    }
}
