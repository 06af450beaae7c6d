//! Gradients of reductions: what comes back for a result is spread over its elements.

use super::super::broadcast::Broadcast;
use super::super::create::cast_to;
use super::super::{Lowering, Outcome, Var, host};
use super::axes::Reduced;
use super::{Fold, fold, is_float, is_wide_float, operand};
use crate::work::Ref;

/// Of `mean`.
pub(super) fn mean(l: &mut Lowering<'_>) -> Outcome {
    let (d, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    if !is_float(d.dtype) || d.dtype != dx.dtype || d.numel() != 1 {
        return host();
    }
    let weight = 1.0 / dx.numel() as f64;
    spread_sum(l, d.at, &Reduced::all(&dx), &dx, weight)
}

/// Of `reduce_sum` and `reduce_mean`.
pub(super) fn sum(l: &mut Lowering<'_>) -> Outcome {
    let is_mean = l.op.op.kind == "reduce_mean_grad";
    let (x, d, dx) = (l.input("X")?.dense()?, l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let axes = Reduced::of(l, "dim", &x)?;
    if !is_float(dx.dtype) || x.dtype != dx.dtype {
        return host();
    }
    let at = cast_to(l, &d, dx.dtype)?;
    let weight = if is_mean { 1.0 / axes.count as f64 } else { 1.0 };
    spread_sum(l, at, &axes, &dx, weight)
}

fn spread_sum(l: &mut Lowering<'_>, d: Ref, axes: &Reduced, dx: &Var, weight: f64) -> Outcome {
    let (n, size) = (dx.numel(), dx.dtype.size());
    let shape = Broadcast::new(&dx.dims, [&axes.kept, &axes.kept], size)?;
    let launch = l.over(format!("spread_sum_{}", dx.suffix()?), shape.threads(n, size)).at(d);
    launch.var(dx).size(n).value(weight).value(shape).launch();
    Ok(())
}

/// Of `reduce_max` and `reduce_min`.
pub(super) fn extreme(l: &mut Lowering<'_>) -> Outcome {
    let vars = Vars::of(l)?;
    let axes = Reduced::of(l, "dim", &vars.x)?;
    spread(l, "spread_extreme", &vars, &axes, vars.out.at, Ref::NULL, [0.0, 0.0])
}

/// Of `logsumexp`.
pub(super) fn logsumexp(l: &mut Lowering<'_>) -> Outcome {
    let vars = Vars::of(l)?;
    let axes = Reduced::of(l, "axis", &vars.x)?;
    spread(l, "spread_logsumexp", &vars, &axes, vars.out.at, Ref::NULL, [0.0, 0.0])
}

/// Of `reduce_prod`: the gradient of a factor is the product of the others, also where factors are zero. With one
/// zero a product changes with that factor alone, with two it does not change at all.
pub(super) fn product(l: &mut Lowering<'_>) -> Outcome {
    let vars = Vars::of(l)?;
    let (x, dtype) = (&vars.x, vars.x.dtype);
    let axes = Reduced::of(l, "dim", x)?;
    let (others, zeros) = (l.scratch(vars.d.bytes()), l.scratch(vars.d.bytes()));
    let product = Fold::new("reduce_nonzero_prod", dtype, operand(x), others)?;
    fold(l, &product, &axes.is_reduced)?;
    fold(l, &Fold::new("reduce_zeros", dtype, operand(x), zeros)?, &axes.is_reduced)?;
    spread(l, "spread_prod", &vars, &axes, others, zeros, [0.0, 0.0])
}

/// What gradients from both input and result read and write.
pub(super) struct Vars {
    pub(super) x: Var,
    pub(super) out: Var,
    d: Var,
    dx: Var,
}

impl Vars {
    pub(super) fn of(l: &Lowering<'_>) -> Outcome<Vars> {
        let (x, out) = (l.input("X")?.dense()?, l.input("Out")?.dense()?);
        let (d, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
        let is_one_type = [out.dtype, d.dtype, dx.dtype] == [x.dtype; 3];
        if is_one_type && is_wide_float(x.dtype) && out.numel() == d.numel() {
            Ok(Vars { x, out, d, dx })
        } else {
            host()
        }
    }
}

/// The kernel `name`, which reads every element with what belongs to its result.
pub(super) fn spread(
    l: &mut Lowering<'_>,
    name: &str,
    vars: &Vars,
    axes: &Reduced,
    results: Ref,
    more: Ref,
    attrs: [f64; 2],
) -> Outcome {
    let (x, n) = (&vars.x, vars.x.numel());
    let shape = Broadcast::new(&x.dims, [&x.dims, &axes.kept], x.dtype.size())?;
    let launch = l.over(format!("{name}_{}", x.suffix()?), n).var(x).at(results);
    let launch = launch.var(&vars.d).at(more).var(&vars.dx).size(n);
    launch.value(attrs[0]).value(attrs[1]).value(shape).launch();
    Ok(())
}
