//! `floor`, `ceil` and `round`: step functions, whose gradients are zero.

use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const FLOOR: OpDef =
    unary::def("floor", |op| unary::map!(op, |x, T| x.floor())).gradient(ZERO);

pub(super) const CEIL: OpDef =
    unary::def("ceil", |op| unary::map!(op, |x, T| x.ceil())).gradient(ZERO);

/// Halves go away from zero, as in Paddle; numpy rounds them to even.
pub(super) const ROUND: OpDef =
    unary::def("round", |op| unary::map!(op, |x, T| x.round())).gradient(ZERO);

const ZERO: Gradient = Gradient::new(&["X"], zero).like("Out@GRAD");

fn zero(op: &OpView<'_>) -> Result<Kernel> {
    let mut dx = op.output("X@GRAD")?;
    float_kernel!(op, "Out@GRAD", |run, T| {
        run.set::<T>(&mut dx)?.fill(0.0);
    })
}
