//! `matmul_v2`, `matmul`, `bmm` and `mul`, with their gradients.

use super::multiply::{dense, float, multiply, plain, turned};
use super::stacks::Stacks;
use crate::lower::{Lowering, Outcome, Var, host};

/// Transpositions and factor, whatever the op calls them.
fn options(l: &Lowering<'_>) -> Outcome<([bool; 2], f32)> {
    let (op, name) = (l.op, l.op.def.name);
    Ok(if name.starts_with("bmm") {
        ([false, false], 1.0)
    } else if name.starts_with("matmul_v2") {
        ([op.bool("trans_x")?, op.bool("trans_y")?], 1.0)
    } else {
        ([op.bool("transpose_X")?, op.bool("transpose_Y")?], op.f32("alpha")?)
    })
}

/// The operands, dense and of one type.
fn operands(l: &Lowering<'_>) -> Outcome<[Var; 2]> {
    let (x, y) = (l.input("X")?.dense()?, l.input("Y")?.dense()?);
    if x.dtype == y.dtype { Ok([x, y]) } else { host() }
}

/// The gradient that comes back, dense and of the operands' type.
fn gradient(l: &Lowering<'_>, x: &Var) -> Outcome<Var> {
    let dout = l.input("Out@GRAD")?.dense()?;
    if dout.dtype == x.dtype { Ok(dout) } else { host() }
}

/// `Out = alpha * X * Y`
pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    let (transposes, alpha) = options(l)?;
    let [x, y] = operands(l)?;
    let out = l.output("Out")?;
    let stacks = Stacks::of(&x.dims, &y.dims, transposes)?;
    stacks.forward(l, x.dtype, alpha, [x.at, y.at, out.at])
}

/// The gradients of `X` and `Y` that are asked for.
pub(super) fn backward(l: &mut Lowering<'_>) -> Outcome {
    let (transposes, alpha) = options(l)?;
    let [x, y] = operands(l)?;
    let dout = gradient(l, &x)?;
    let stacks = Stacks::of(&x.dims, &y.dims, transposes)?;
    if let Some(dx) = l.maybe_output("X@GRAD") {
        stacks.backward_x(l, x.dtype, alpha, [y.at, dout.at, dx.at])?;
    }
    if let Some(dy) = l.maybe_output("Y@GRAD") {
        stacks.backward_y(l, x.dtype, alpha, [x.at, dout.at, dy.at])?;
    }
    Ok(())
}

/// Rows and columns of a tensor seen as a matrix whose columns begin at dimension `columns_from`.
pub(super) fn as_matrix(dims: &[usize], columns_from: i64) -> Outcome<[usize; 2]> {
    match usize::try_from(columns_from) {
        Ok(at) if at <= dims.len() => {
            let (rows, columns) = dims.split_at(at);
            Ok([rows.iter().product(), columns.iter().product()])
        }
        _ => host(),
    }
}

/// Sizes of `mul`: `[m, n, k]`.
fn mul_sizes(l: &Lowering<'_>, x: &Var, y: &Var) -> Outcome<[usize; 3]> {
    let [m, k] = as_matrix(&x.dims, l.op.i64("x_num_col_dims")?)?;
    let [inner, n] = as_matrix(&y.dims, l.op.i64("y_num_col_dims")?)?;
    if inner == k { Ok([m, n, k]) } else { host() }
}

/// `mul`: tensors seen as matrices.
pub(super) fn mul(l: &mut Lowering<'_>) -> Outcome {
    let [x, y] = operands(l)?;
    let (sizes, out) = (mul_sizes(l, &x, &y)?, l.output("Out")?);
    multiply(l, dense(float(x.dtype)?, sizes, plain(x.at), plain(y.at), out.at))
}

/// The gradients of `mul`.
pub(super) fn mul_grad(l: &mut Lowering<'_>) -> Outcome {
    let [x, y] = operands(l)?;
    let [m, n, k] = mul_sizes(l, &x, &y)?;
    let (dout, elements) = (gradient(l, &x)?, float(x.dtype)?);
    if let Some(dx) = l.maybe_output("X@GRAD") {
        multiply(l, dense(elements, [m, k, n], plain(dout.at), turned(y.at), dx.at))?;
    }
    if let Some(dy) = l.maybe_output("Y@GRAD") {
        multiply(l, dense(elements, [k, n, m], turned(x.at), plain(dout.at), dy.at))?;
    }
    Ok(())
}
