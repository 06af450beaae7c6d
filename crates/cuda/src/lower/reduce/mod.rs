//! Reductions over some axes (`reduce.cu`), and ops that are made of them.

mod axes;
mod gradient;
mod norms;
mod reduction;

use bireme_ir::DType;

use super::create::cast_to;
use super::elementwise::Operand;
use super::{Lower, Lowering, Outcome, Var, host};
use axes::Reduced;
pub(super) use reduction::{Fold, fold};

/// The ops of this folder.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("mean", mean),
    ("mean_grad", gradient::mean),
    ("reduce_sum", sum),
    ("reduce_sum_grad", gradient::sum),
    ("reduce_mean", average),
    ("reduce_mean_grad", gradient::sum),
    ("reduce_max", extreme),
    ("reduce_max_grad", gradient::extreme),
    ("reduce_min", extreme),
    ("reduce_min_grad", gradient::extreme),
    ("reduce_prod", product),
    ("reduce_prod_grad", gradient::product),
    ("reduce_any", truth),
    ("reduce_all", truth),
    ("logsumexp", logsumexp),
    ("logsumexp_grad", gradient::logsumexp),
    ("squared_l2_norm", norms::squared_l2_norm),
    ("squared_l2_norm_grad", norms::squared_l2_norm_grad),
    ("clip_by_norm", norms::clip_by_norm),
    ("norm", norms::norm),
    ("norm_grad", norms::norm_grad),
    ("p_norm", norms::p_norm),
    ("p_norm_grad", norms::p_norm_grad),
];

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16)
}

fn is_wide_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

fn is_number(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64)
}

/// A variable as an operand of its own shape.
fn operand(var: &Var) -> Operand<'_> {
    Operand { at: var.at, dims: &var.dims }
}

fn mean(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    if !is_float(x.dtype) || out.dtype != x.dtype {
        return host();
    }
    let weight = 1.0 / x.numel() as f64;
    fold(l, &Fold::sum(x.dtype, operand(&x), out.at, weight)?, &vec![true; x.dims.len()])
}

fn sum(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let axes = Reduced::of(l, "dim", &x)?;
    if !(is_number(out.dtype) || is_float(out.dtype) && x.dtype == out.dtype) {
        return host();
    }
    // `out_dtype` converts the elements before they are added.
    let at = cast_to(l, &x, out.dtype)?;
    let from = Operand { at, dims: &x.dims };
    fold(l, &Fold::sum(out.dtype, from, out.at, 1.0)?, &axes.is_reduced)
}

fn average(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let axes = Reduced::of(l, "dim", &x)?;
    if !is_float(x.dtype) || out.dtype != x.dtype {
        return host();
    }
    let weight = 1.0 / axes.count as f64;
    fold(l, &Fold::sum(x.dtype, operand(&x), out.at, weight)?, &axes.is_reduced)
}

fn extreme(l: &mut Lowering<'_>) -> Outcome {
    let kernel = if l.op.op.kind == "reduce_max" { "reduce_max" } else { "reduce_min" };
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let axes = Reduced::of(l, "dim", &x)?;
    // Nothing has no extreme; the host says so.
    if axes.count == 0 || !is_number(x.dtype) || out.dtype != x.dtype {
        return host();
    }
    fold(l, &Fold::new(kernel, x.dtype, operand(&x), out.at)?, &axes.is_reduced)
}

fn product(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let axes = Reduced::of(l, "dim", &x)?;
    if !is_number(x.dtype) || out.dtype != x.dtype {
        return host();
    }
    fold(l, &Fold::new("reduce_prod", x.dtype, operand(&x), out.at)?, &axes.is_reduced)
}

fn truth(l: &mut Lowering<'_>) -> Outcome {
    let kernel = if l.op.op.kind == "reduce_any" { "reduce_any" } else { "reduce_all" };
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let axes = Reduced::of(l, "dim", &x)?;
    if !is_number(x.dtype) && !matches!(x.dtype, DType::Bool | DType::U8) {
        return host();
    }
    fold(l, &Fold::truth(kernel, x.dtype, operand(&x), out.at)?, &axes.is_reduced)
}

/// The largest elements first, so that no exponential exceeds 1.
fn logsumexp(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let axes = Reduced::of(l, "axis", &x)?;
    if !is_wide_float(x.dtype) || out.dtype != x.dtype {
        return host();
    }
    let tops = l.scratch(out.bytes());
    fold(l, &Fold::new("reduce_max", x.dtype, operand(&x), tops)?, &axes.is_reduced)?;
    let top = Operand { at: tops, dims: &axes.kept };
    let sum = Fold::new("reduce_exp", x.dtype, operand(&x), out.at)?.beside(top);
    fold(l, &sum, &axes.is_reduced)
}
