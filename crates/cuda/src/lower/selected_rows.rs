//! Selected rows: joined, added to dense tensors, each number once, clipped by their norm.
//!
//! Rows that a result does not need keep their places under the number [`NO_ROW`]: how many rows there are is
//! known before the data is.

use bireme_ir::DType;

use super::segments::Rows;
use super::sort::{NO_ROW, Unsorted, sort};
use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::Ref;

/// The ops that are of selected rows alone. `sum` (`math.rs`), `clip_by_norm` and `squared_l2_norm` (`reduce/`) come
/// here when they are given some.
pub(super) const OPS: &[(&str, Lower)] = &[("merge_selected_rows", merge_selected_rows)];

/// Blocks that sums of squares are computed in, at most.
const MAX_BLOCKS: usize = 512;
/// Threads of those blocks.
const THREADS: u32 = 256;

/// The rows of `var` in the order of their numbers.
pub(super) fn sorted_rows(cx: &mut Lowering<'_>, var: &Var) -> Outcome<Rows> {
    let Some(selected) = var.selected else { return host() };
    let unsorted = Unsorted {
        at: selected.rows,
        dtype: DType::I64,
        count: selected.count,
        padding: NO_ROW,
        bound: var.dims.first().copied().unwrap_or(0),
    };
    let sorted = sort(cx, &unsorted)?;
    let (values, dtype, view) = (var.at, var.dtype, selected.view);
    Ok(Rows { sorted, values, dtype, width: var.width(), view })
}

/// `sum` where there are selected rows: they are joined, or added to one dense tensor.
pub(super) fn sum(cx: &mut Lowering<'_>) -> Outcome {
    let (inputs, out) = (cx.inputs("X"), cx.output("Out")?);
    let rows: Vec<&Var> = inputs.iter().filter(|var| var.selected.is_some()).collect();
    if rows.is_empty() || rows.iter().any(|var| var.width() != out.width()) {
        return host();
    }
    if rows.len() == inputs.len() {
        return join(cx, &inputs);
    }
    let mut dense = inputs.iter().filter(|var| var.selected.is_none());
    let (Some(first), None) = (dense.next(), dense.next()) else { return host() };
    if !matches!(out.dtype, DType::F32 | DType::F64) {
        return host();
    }
    cx.copy(first.at, out.at, first.bytes());
    for var in rows {
        sorted_rows(cx, var)?.add_to(cx, out.at)?;
    }
    Ok(())
}

fn join(cx: &mut Lowering<'_>, inputs: &[Var]) -> Outcome {
    let counts = inputs.iter().filter_map(|var| var.selected).map(|selected| selected.count);
    cx.select("Out", counts.sum());
    let out = cx.output("Out")?;
    let Some(selected) = out.selected else { return host() };
    let row_bytes = out.width() * out.dtype.size();
    let mut next = 0;
    for var in inputs {
        let Some(from) = var.selected else { return host() };
        cx.copy(from.rows, selected.rows.plus(next * 8), from.count * 8);
        cx.copy(var.at, out.at.plus(next * row_bytes), from.count * row_bytes);
        next += from.count;
    }
    Ok(())
}

fn merge_selected_rows(cx: &mut Lowering<'_>) -> Outcome {
    merge(cx).map(|_| ())
}

/// Makes `Out` the rows of `X`, each number once and where it stood first. Returns how many elements `Out` has.
fn merge(cx: &mut Lowering<'_>) -> Outcome<usize> {
    let x = cx.input("X")?;
    let Some(selected) = x.selected else { return host() };
    if !matches!(x.dtype, DType::F32 | DType::F64) {
        return host();
    }
    cx.select("Out", selected.count);
    let out = cx.output("Out")?;
    let Some(to) = out.selected else { return host() };
    let elements = selected.count * x.width();
    cx.over("no_rows", selected.count).at(to.rows).size(selected.count).launch();
    cx.clear(out.at, elements * x.dtype.size());
    sorted_rows(cx, &x)?.merge(cx, out.at, to.rows, Ref::NULL)?;
    Ok(elements)
}

/// `clip_by_norm` of selected rows.
pub(super) fn clip_by_norm(cx: &mut Lowering<'_>) -> Outcome {
    let longest = cx.op.f64("max_norm")?;
    if longest.is_nan() || longest <= 0.0 {
        return host();
    }
    let elements = merge(cx)?;
    let out = cx.output("Out")?;
    let (partial, blocks) = square_sums(cx, out.at, elements, out.suffix()?);
    // In the precision that the op compares in.
    let longest = if out.dtype == DType::F32 { f64::from(longest as f32) } else { longest };
    cx.kernel(format!("shorten_{}", out.suffix()?), [blocks, 1, 1], THREADS)
        .at(out.at)
        .size(elements)
        .at(partial)
        .value(blocks)
        .value(longest)
        .launch();
    Ok(())
}

/// `squared_l2_norm` of selected rows.
pub(super) fn squared_l2_norm(cx: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (cx.input("X")?, cx.output("Out")?);
    let Some(selected) = x.selected else { return host() };
    if !matches!(x.dtype, DType::F32 | DType::F64) || out.dtype != x.dtype {
        return host();
    }
    let elements = selected.count * x.width();
    let merged = cx.scratch(elements * x.dtype.size());
    cx.clear(merged, elements * x.dtype.size());
    sorted_rows(cx, &x)?.merge(cx, merged, Ref::NULL, Ref::NULL)?;
    let (partial, blocks) = square_sums(cx, merged, elements, x.suffix()?);
    cx.kernel(format!("square_sum_{}", x.suffix()?), [1, 1, 1], THREADS)
        .at(partial)
        .value(blocks)
        .var(&out)
        .launch();
    Ok(())
}

/// Sums of squares, one a block: where they lie, and how many there are.
fn square_sums(cx: &mut Lowering<'_>, at: Ref, elements: usize, suffix: &str) -> (Ref, u32) {
    let blocks = elements.div_ceil(THREADS as usize * 4).clamp(1, MAX_BLOCKS) as u32;
    let partial = cx.scratch(blocks as usize * 8);
    cx.kernel(format!("square_sums_{suffix}"), [blocks, 1, 1], THREADS)
        .at(at)
        .size(elements)
        .at(partial)
        .launch();
    (partial, blocks)
}
