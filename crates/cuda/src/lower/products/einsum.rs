//! `einsum`: operands put in order, one stack of products, and the result put in the order of the output.

use bireme_engine::ops::einsum::{Axis, Contraction, contraction};
use bireme_engine::tensor::Dims;
use bireme_ir::{DType, EMPTY_VAR};

use super::multiply::{Operand, dense, float, multiply, plain, turned};
use crate::lower::lowering::suffix;
use crate::lower::{Lowering, Outcome, Var, host};
use crate::work::{Product, Ref};

/// The most axes that `einsum.cu` takes.
const MAX_AXES: usize = 16;

/// The plan for operands of these shapes; declines what 32 bits do not count.
fn plan(l: &Lowering<'_>, operands: &[Var]) -> Outcome<Contraction> {
    let is_small = operands.iter().all(|var| i32::try_from(var.numel()).is_ok());
    let is_typed = operands.iter().all(|var| var.dtype == operands[0].dtype);
    if operands.is_empty() || !is_small || !is_typed {
        return host();
    }
    float(operands[0].dtype)?;
    let dims: Vec<Dims> = operands.iter().map(|var| Dims::new(&var.dims)).collect();
    let plan = contraction(l.op, &dims)?;
    let [stack, m, n, k] = plan.sizes();
    let sizes = [stack * m * k, stack * k * n, stack * m * n];
    if sizes.iter().all(|size| i32::try_from(*size).is_ok()) { Ok(plan) } else { host() }
}

/// One axis of a reordering: its size, and its strides on both sides.
struct Step {
    size: usize,
    from: usize,
    to: usize,
}

/// Axes that are read with their strides, and written one inside the other.
fn to_dense(axes: &[Axis]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut stride = 1;
    for axis in axes.iter().rev() {
        steps.push(Step { size: axis.size, from: axis.stride as usize, to: stride });
        stride *= axis.size;
    }
    steps.reverse();
    steps
}

/// The reverse: read one inside the other, written with their strides.
fn from_dense(axes: &[Axis]) -> Vec<Step> {
    let turn = |step: Step| Step { size: step.size, from: step.to, to: step.from };
    to_dense(axes).into_iter().map(turn).collect()
}

/// Writes elements in another order, each the sum over `summed` axes.
fn reorder(
    l: &mut Lowering<'_>,
    dtype: DType,
    [from, to]: [Ref; 2],
    kept: &[Step],
    summed: &[Axis],
) -> Outcome {
    let count: usize = kept.iter().map(|step| step.size).product();
    let each: usize = summed.iter().map(|axis| axis.size).product();
    if kept.len() + summed.len() > MAX_AXES {
        return host();
    }
    let mut axes = [0u32; 64];
    axes[0] = kept.len() as u32;
    axes[1] = (kept.len() + summed.len()) as u32;
    for (at, step) in kept.iter().enumerate() {
        axes[2 + at] = step.size as u32;
        axes[2 + MAX_AXES + at] = step.from as u32;
        axes[2 + 2 * MAX_AXES + at] = step.to as u32;
    }
    for (at, axis) in summed.iter().enumerate() {
        axes[2 + kept.len() + at] = axis.size as u32;
        axes[2 + MAX_AXES + kept.len() + at] = axis.stride as u32;
    }
    let launch = l.over(format!("reorder_{}", suffix(dtype)?), count);
    launch.at(from).at(to).value(axes).size(count).size(each).launch();
    Ok(())
}

/// An operand in order: as it is, or in `to` or scratch memory.
fn in_order(
    l: &mut Lowering<'_>,
    plan: &Contraction,
    operand: usize,
    var: &Var,
    to: Option<Ref>,
) -> Outcome<Ref> {
    if to.is_none() && plan.is_ordered(operand) {
        return Ok(var.at);
    }
    let to = to.unwrap_or_else(|| l.scratch(plan.ordered(operand) * var.dtype.size()));
    let side = &plan.sides[operand];
    reorder(l, var.dtype, [var.at, to], &to_dense(&side.kept), &side.summed)?;
    Ok(to)
}

/// A stack of products, `[stack, m, n, k]`.
fn products(
    l: &mut Lowering<'_>,
    dtype: DType,
    [stack, m, n, k]: [usize; 4],
    a: Operand,
    b: Operand,
    out: Ref,
) -> Outcome {
    multiply(l, Product { batch: stack, ..dense(float(dtype)?, [m, n, k], a, b, out) })
}

pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    let (operands, out) = (l.inputs("Operands"), l.output("Out")?);
    let plan = plan(l, &operands)?;
    let (caches, dtype) = (l.outputs("InnerCache"), out.dtype);
    for shape in l.outputs("XShape") {
        // Only their shapes mean something; zeros are finite.
        l.clear(shape.at, shape.bytes());
    }
    let mut sides = Vec::new();
    for (i, operand) in operands.iter().enumerate() {
        sides.push(in_order(l, &plan, i, operand, caches.get(i).map(|cache| cache.at))?);
    }
    let [stack, m, n, _] = plan.sizes();
    let is_direct = plan.is_product_ordered();
    let product = match sides[..] {
        [only] => only,
        [left, right] => {
            let to = if is_direct { out.at } else { l.scratch(stack * m * n * dtype.size()) };
            products(l, dtype, plan.sizes(), plain(left), plain(right), to)?;
            if is_direct {
                return Ok(());
            }
            to
        }
        _ => return host(),
    };
    if plan.writes_diagonal {
        l.clear(out.at, out.bytes());
        return reorder(l, dtype, [product, out.at], &from_dense(&plan.product), &[]);
    }
    reorder(l, dtype, [product, out.at], &to_dense(&plan.out), &[])
}

pub(super) fn backward(l: &mut Lowering<'_>) -> Outcome {
    let operands = l.inputs("Operands");
    // Programs of Paddle give what the op kept instead: operands in order, and shapes.
    let is_kept = operands.is_empty();
    let shapes = if is_kept { l.inputs("x_shape") } else { operands };
    let kept = if is_kept { l.inputs("InnerCache") } else { Vec::new() };
    let (d, plan) = (l.input("Out@GRAD")?.dense()?, plan(l, &shapes)?);
    let dtype = shapes[0].dtype;
    let fits = |(i, var): (usize, &Var)| var.numel() == plan.ordered(i) && var.dtype == dtype;
    if d.dtype != dtype
        || (is_kept && (kept.len() != shapes.len() || !kept.iter().enumerate().all(fits)))
    {
        return host();
    }
    let [stack, m, n, k] = plan.sizes();
    let dproduct = if plan.is_product_ordered() {
        d.at
    } else {
        let to = l.scratch(stack * m * n * dtype.size());
        reorder(l, dtype, [d.at, to], &to_dense(&plan.product), &[])?;
        to
    };
    let wanted = l.outputs("Operands@GRAD").into_iter().zip(l.op.op.outputs_of("Operands@GRAD"));
    let wanted: Vec<Option<Var>> =
        wanted.map(|(var, name)| (name != EMPTY_VAR).then_some(var)).collect();
    for (i, to) in wanted.iter().enumerate() {
        let Some(to) = to else { continue };
        if shapes.len() == 1 {
            spread(l, &plan, i, dtype, dproduct, to)?;
            continue;
        }
        let other = match kept.get(1 - i) {
            Some(kept) => kept.at,
            None => in_order(l, &plan, 1 - i, &shapes[1 - i], None)?,
        };
        let ordered =
            if plan.is_ordered(i) { to.at } else { l.scratch(plan.ordered(i) * dtype.size()) };
        if i == 0 {
            products(l, dtype, [stack, m, k, n], plain(dproduct), turned(other), ordered)?;
        } else {
            products(l, dtype, [stack, k, n, m], turned(other), plain(dproduct), ordered)?;
        }
        if !plan.is_ordered(i) {
            spread(l, &plan, i, dtype, ordered, to)?;
        }
    }
    Ok(())
}

/// Gives every element of an operand the gradient of what it was added to.
fn spread(
    l: &mut Lowering<'_>,
    plan: &Contraction,
    operand: usize,
    dtype: DType,
    from: Ref,
    to: &Var,
) -> Outcome {
    let side = &plan.sides[operand];
    if !side.is_diagonal {
        return reorder(l, dtype, [from, to.at], &to_dense(&side.own), &[]);
    }
    // Only a diagonal was read: all else is 0.
    l.clear(to.at, to.bytes());
    let mut steps = from_dense(&side.kept);
    let summed = side.summed.iter();
    steps.extend(summed.map(|axis| Step { size: axis.size, from: 0, to: axis.stride as usize }));
    reorder(l, dtype, [from, to.at], &steps, &[])
}
