//! Functions of two elements with broadcasting (`binary.cu`): arithmetic, comparisons, logic.

mod binary;
mod compare;
mod gradient;
mod prelu;

use super::broadcast::{Aligned, Broadcast};
use super::{Lower, Lowering, Outcome, Var};
use crate::work::Ref;

/// The ops of this folder.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("elementwise_add", binary::lower),
    ("elementwise_sub", binary::lower),
    ("elementwise_mul", binary::lower),
    ("elementwise_div", binary::lower),
    ("elementwise_max", binary::lower),
    ("elementwise_min", binary::lower),
    ("elementwise_pow", binary::lower),
    ("elementwise_mod", binary::lower),
    ("elementwise_floordiv", binary::lower),
    ("elementwise_add_grad", gradient::lower),
    ("elementwise_sub_grad", gradient::lower),
    ("elementwise_mul_grad", gradient::lower),
    ("elementwise_div_grad", gradient::lower),
    ("elementwise_max_grad", gradient::lower),
    ("elementwise_min_grad", gradient::lower),
    ("elementwise_pow_grad", gradient::lower),
    ("prelu", prelu::lower),
    ("prelu_grad", prelu::lower_grad),
    ("equal", compare::relation),
    ("not_equal", compare::relation),
    ("less_than", compare::relation),
    ("less_equal", compare::relation),
    ("greater_than", compare::relation),
    ("greater_equal", compare::relation),
    ("logical_and", compare::relation),
    ("logical_or", compare::relation),
    ("logical_xor", compare::relation),
    ("logical_not", compare::logical_not),
    ("isnan_v2", compare::finite),
    ("isinf_v2", compare::finite),
    ("isfinite_v2", compare::finite),
];

/// One operand of a kernel: where it lies, and its shape, of the rank of the result.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) at: Ref,
    pub(super) dims: &'a [usize],
}

/// The kernel `name` over shape `full`, of elements of `size` bytes: `out = f(x, y)`.
pub(super) fn zip(
    l: &mut Lowering<'_>,
    name: String,
    full: &[usize],
    [x, y]: [Operand<'_>; 2],
    out: Ref,
    size: usize,
) -> Outcome {
    let (shape, n) = (Broadcast::new(full, [x.dims, y.dims], size)?, full.iter().product());
    let launch = l.over(name, shape.threads(n, size)).at(x.at).at(y.at);
    launch.at(out).size(n).value(shape).launch();
    Ok(())
}

/// The kernel `name` of a gradient, which also reads `d`, of the full shape.
pub(super) fn zip_grad(
    l: &mut Lowering<'_>,
    name: String,
    aligned: &Aligned,
    [x, y, d]: [&Var; 3],
    out: Ref,
) -> Outcome {
    let (full, size) = (&aligned.full, d.dtype.size());
    let (shape, n) = (Broadcast::new(full, [&aligned.x, &aligned.y], size)?, d.numel());
    let launch = l.over(name, shape.threads(n, size)).var(x).var(y).var(d);
    launch.at(out).size(n).value(shape).launch();
    Ok(())
}
