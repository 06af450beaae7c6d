//! `dot` and `cos_sim`: what rows have to do with each other, one number a row.

use bireme_ir::DType;

use super::columns::{Matrix, column_sums};
use crate::lower::{Lowering, Outcome, Var, host};
use crate::work::Ref;

/// Blocks of 8 warps that `rows` rows take, one warp each.
fn warp_blocks(rows: usize) -> [u32; 3] {
    [rows.div_ceil(8).min(1 << 16) as u32, 1, 1]
}

/// Declines more elements than 32 bits count.
fn countable(var: &Var) -> Outcome {
    if u32::try_from(var.numel()).is_ok() { Ok(()) } else { host() }
}

/// Inner products along the last axis.
pub(super) fn dot(l: &mut Lowering<'_>) -> Outcome {
    let (x, y, out) = (l.input("X")?.dense()?, l.input("Y")?.dense()?, l.output("Out")?);
    let is_number = !matches!(x.dtype, DType::U8 | DType::Bool);
    if x.dtype != y.dtype || x.dims != y.dims || !is_number {
        return host();
    }
    let (rows, width) = (out.numel(), x.dims.last().copied().unwrap_or(1));
    let launch = l.kernel(format!("dot_{}", x.suffix()?), warp_blocks(rows), 256);
    launch.var(&x).var(&y).var(&out).size(rows).size(width).launch();
    Ok(())
}

/// The gradients of `dot`.
pub(super) fn dot_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, y) = (l.input("X")?.dense()?, l.input("Y")?.dense()?);
    let dout = l.input("Out@GRAD")?.dense()?;
    let (dx, dy) = (l.maybe_output("X@GRAD"), l.maybe_output("Y@GRAD"));
    let is_float = matches!(x.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16);
    if !is_float || x.dtype != dout.dtype || x.dtype != y.dtype || x.dims != y.dims {
        return host();
    }
    countable(&x)?;
    let width = x.dims.last().copied().unwrap_or(1);
    let launch = l.over(format!("dot_grad_{}", x.suffix()?), x.numel());
    let launch = launch.var(&x).var(&y).var(&dout).maybe(dx.as_ref()).maybe(dy.as_ref());
    launch.size(x.numel()).size(width).launch();
    Ok(())
}

/// Rows of `X`, rows of `Y`, and their width.
fn sizes(x: &Var, y: &Var) -> Outcome<[usize; 3]> {
    let is_float = matches!(x.dtype, DType::F32 | DType::F64);
    let (rows, y_rows) = (x.dims.first().copied(), y.dims.first().copied());
    match (rows, y_rows) {
        (Some(rows), Some(y_rows))
            if rows > 0 && (y_rows == 1 || y_rows == rows) && x.width() == y.width() =>
        {
            countable(x)?;
            if is_float && x.dtype == y.dtype { Ok([rows, y_rows, x.width()]) } else { host() }
        }
        _ => host(),
    }
}

/// The cosine of the angle between rows.
pub(super) fn cos_sim(l: &mut Lowering<'_>) -> Outcome {
    let (x, y, out) = (l.input("X")?.dense()?, l.input("Y")?.dense()?, l.output("Out")?);
    let (x_norm, y_norm) = (l.output("XNorm")?, l.output("YNorm")?);
    let [rows, y_rows, width] = sizes(&x, &y)?;
    let launch = l.kernel(format!("cos_sim_{}", x.suffix()?), warp_blocks(rows), 256);
    let launch = launch.var(&x).var(&y).var(&out).var(&x_norm).var(&y_norm);
    launch.size(rows).size(y_rows).size(width).launch();
    Ok(())
}

/// The gradients of `cos_sim`. A single row of `Y` gets the sum of what all rows give to it.
pub(super) fn cos_sim_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, y) = (l.input("X")?.dense()?, l.input("Y")?.dense()?);
    let [out, x_norm, y_norm] = [l.input("Out")?, l.input("XNorm")?, l.input("YNorm")?];
    let dout = l.input("Out@GRAD")?.dense()?;
    let (dx, dy) = (l.maybe_output("X@GRAD"), l.maybe_output("Y@GRAD"));
    let [rows, y_rows, width] = sizes(&x, &y)?;
    let columns = [(&out, rows), (&x_norm, rows), (&y_norm, y_rows), (&dout, rows)];
    if columns.iter().any(|(var, rows)| var.numel() != *rows || var.dtype != x.dtype) {
        return host();
    }
    let is_summed = y_rows != rows;
    let each_dy = match &dy {
        Some(_) if is_summed => l.scratch(x.bytes()),
        Some(dy) => dy.at,
        None => Ref::NULL,
    };
    let launch = l.over(format!("cos_sim_grad_{}", x.suffix()?), x.numel());
    let launch = launch.var(&x).var(&y).var(&out).var(&x_norm).var(&y_norm).var(&dout);
    launch.maybe(dx.as_ref()).at(each_dy).size(x.numel()).size(y_rows).size(width).launch();
    if let (true, Some(dy)) = (is_summed, dy) {
        let matrix = Matrix { at: each_dy, dtype: x.dtype, rows, columns: width, pitch: width };
        column_sums(l, matrix, Ref::NULL, dy.at, 1.0)?;
    }
    Ok(())
}
