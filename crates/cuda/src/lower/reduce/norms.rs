//! Norms: of whole tensors, and along an axis.

use super::super::broadcast::{Broadcast, threads};
use super::super::elementwise::{Operand, zip};
use super::super::{Lowering, Outcome, host, selected_rows};
use super::axes::Reduced;
use super::gradient::{Vars, spread};
use super::{Fold, fold, is_float, is_wide_float, operand};
use crate::work::Ref;

/// What makes `reduce_squares` take no root.
const NO_ROOT: f64 = -1.0;

pub(super) fn squared_l2_norm(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?, l.output("Out")?);
    if x.selected.is_some() {
        return selected_rows::squared_l2_norm(l);
    }
    if !is_float(x.dtype) || out.dtype != x.dtype {
        return host();
    }
    let squares = Fold::new("reduce_squares", x.dtype, operand(&x), out.at)?.with(1.0, NO_ROOT);
    fold(l, &squares, &vec![true; x.dims.len()])
}

pub(super) fn squared_l2_norm_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, d, dx) = (l.input("X")?.dense()?, l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    if !is_wide_float(x.dtype) || d.dtype != x.dtype || d.numel() != 1 {
        return host();
    }
    let (n, name) = (x.numel(), format!("squared_l2_norm_grad_{}", x.suffix()?));
    l.over(name, threads(n, x.dtype.size())).var(&x).var(&d).var(&dx).size(n).launch();
    Ok(())
}

pub(super) fn clip_by_norm(l: &mut Lowering<'_>) -> Outcome {
    let (x, out, max_norm) = (l.input("X")?, l.output("Out")?, l.op.f64("max_norm")?);
    if x.selected.is_some() {
        return selected_rows::clip_by_norm(l);
    }
    if !is_wide_float(x.dtype) || max_norm.is_nan() || max_norm <= 0.0 {
        return host();
    }
    let square = l.scratch(x.dtype.size());
    let squares = Fold::new("reduce_squares", x.dtype, operand(&x), square)?.with(1.0, NO_ROOT);
    fold(l, &squares, &vec![true; x.dims.len()])?;
    let (n, name) = (x.numel(), format!("clip_by_norm_{}", x.suffix()?));
    let launch = l.over(name, threads(n, x.dtype.size())).var(&x).at(square).var(&out);
    launch.size(n).value(max_norm).launch();
    Ok(())
}

/// `l2_normalize`: the norms, then a quotient.
pub(super) fn norm(l: &mut Lowering<'_>) -> Outcome {
    let (x, out, norm) = (l.input("X")?.dense()?, l.output("Out")?, l.maybe_output("Norm"));
    let (axes, epsilon) = (Reduced::one(l.op.i64("axis")?, &x)?, l.op.f64("epsilon")?);
    if !is_wide_float(x.dtype) || epsilon.is_nan() || epsilon < 0.0 {
        return host();
    }
    let size = x.dtype.size();
    let count: usize = axes.kept.iter().product();
    let norms = norm.map_or_else(|| l.scratch(count * size), |norm| norm.at);
    let squares = Fold::new("reduce_squares", x.dtype, operand(&x), norms)?.with(1.0, epsilon);
    fold(l, &squares, &axes.is_reduced)?;
    let operands = [operand(&x), Operand { at: norms, dims: &axes.kept }];
    let name = format!("elementwise_div_{}", x.suffix()?);
    zip(l, name, &x.dims, operands, out.at, size)
}

pub(super) fn norm_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, norm) = (l.input("X")?.dense()?, l.input("Norm")?.dense()?);
    let (d, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let axes = Reduced::one(l.op.i64("axis")?, &x)?;
    if !is_wide_float(x.dtype) || norm.dtype != x.dtype || d.dtype != x.dtype {
        return host();
    }
    let (n, size) = (x.numel(), x.dtype.size());
    let sums = l.scratch(norm.bytes());
    let products = [operand(&x), Operand { at: d.at, dims: &x.dims }];
    fold(l, &Fold::dot(x.dtype, products, sums)?, &axes.is_reduced)?;
    let shape = Broadcast::new(&x.dims, [&x.dims, &axes.kept], size)?;
    let launch = l.over(format!("spread_norm_{}", x.suffix()?), n).var(&x).var(&d).at(sums);
    launch.var(&norm).var(&dx).size(n).value(shape).launch();
    Ok(())
}

/// The axes that a `p_norm` runs along.
fn p_norm_axes(l: &Lowering<'_>, x: &super::Var) -> Outcome<Reduced> {
    if l.op.bool("asvector")? { Ok(Reduced::all(x)) } else { Reduced::one(l.op.i64("axis")?, x) }
}

pub(super) fn p_norm(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let (axes, order) = (p_norm_axes(l, &x)?, l.op.f64("porder")?);
    if !is_wide_float(x.dtype) || order.is_nan() {
        return host();
    }
    let norm = Fold::new("p_norm", x.dtype, operand(&x), out.at)?.with(order, 0.0).in_doubles();
    fold(l, &norm, &axes.is_reduced)
}

pub(super) fn p_norm_grad(l: &mut Lowering<'_>) -> Outcome {
    let vars = Vars::of(l)?;
    let axes = p_norm_axes(l, &vars.x)?;
    let attrs = [l.op.f64("porder")?, l.op.f64("epsilon")?];
    spread(l, "spread_p_norm", &vars, &axes, vars.out.at, Ref::NULL, attrs)
}
