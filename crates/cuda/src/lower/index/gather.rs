//! Slices of a tensor by a list of indices; gradients add each slice back to where it came from.

use bytemuck::{Pod, Zeroable};

use super::positions::{Along, Indices, Places};
use crate::lower::axes::{around_axis, axis_in};
use crate::lower::divider::divider;
use crate::lower::lowering::Lowering;
use crate::lower::walk::{MAX_COUNT, word, word_of};
use crate::lower::{Outcome, Var, host};
use crate::work::Ref;

pub(super) fn gather(l: &mut Lowering<'_>, attr: &str) -> Outcome {
    if attr == "axis" {
        l.decline_values_in(&["Axis"])?;
    }
    let (x, index, out) = (l.input("X")?.dense()?, l.input("Index")?, l.output("Out")?);
    let axis = axis_in(l.op.i64(attr)?, x.dims.len())?;
    let (outer, len, inner) = around_axis(&x.dims, axis);
    take_slices(l, (&x, outer, len, inner), Indices::of(&index)?, out.at)
}

/// Copies slices of `inner` elements along an axis of `len`: `out[o, i] = x[o, indices[i]]`.
pub(in crate::lower) fn take_slices(
    l: &mut Lowering<'_>,
    (x, outer, len, inner): (&Var, usize, usize, usize),
    indices: Indices,
    out: Ref,
) -> Outcome {
    let bytes = word_of([inner * x.dtype.size()]);
    let width = inner * x.dtype.size() / bytes;
    let count = outer * indices.count * width;
    if count >= MAX_COUNT || indices.count >= MAX_COUNT {
        return host();
    }
    let launch = l.over(format!("gather_{}", word(bytes)), count).var(x).at(indices.at);
    let launch = launch.value(indices.wide).at(out).value(count as u32);
    let launch = launch.value(divider(width)).value(divider(indices.count));
    launch.size(len).complaint().launch();
    Ok(())
}

pub(super) fn gather_grad(l: &mut Lowering<'_>, attr: &str) -> Outcome {
    if attr == "axis" {
        l.decline_values_in(&["Axis"])?;
    }
    let (x, index) = (l.input("X")?, l.input("Index")?);
    let (dout, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let axis = axis_in(l.op.i64(attr)?, x.dims.len())?;
    let (tables, places, width) = around_axis(&x.dims, axis);
    let places = Places { tables, places, width };
    add_back(l, Indices::of(&index)?, places, &dout, &dx)
}

/// Adds rows of `dout` to the places of `dx`, which starts from zero, that indices name.
fn add_back(
    l: &mut Lowering<'_>,
    indices: Indices,
    places: Places,
    dout: &Var,
    dx: &Var,
) -> Outcome {
    l.clear(dx.at, dx.bytes());
    if indices.count == 0 || dx.numel() == 0 {
        return Ok(());
    }
    let along = Along::new(indices.count, places.places, 1)?;
    let sorted = l.sort_indices(indices, along)?;
    l.sum_sorted(sorted, places, dout.at, dx)
}

/// Dimensions as kernels read them.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Sizes([i64; 16]);

/// The slices that the rows of `index` name, as positions among all slices of their size; how many of those
/// there are, and how many elements each has.
fn flattened(l: &mut Lowering<'_>, index: &Var, x: &[usize]) -> Outcome<(Indices, usize, usize)> {
    let Some((depth, rows)) = index.dims.split_last() else { return host() };
    let (given, rows) = (Indices::of(index)?, rows.iter().product::<usize>());
    let mut sizes = Sizes::zeroed();
    if *depth > x.len() || *depth > sizes.0.len() {
        return host();
    }
    for (size, dim) in sizes.0.iter_mut().zip(&x[..*depth]) {
        *size = *dim as i64;
    }
    let at = l.scratch(rows * 8);
    let launch = l.over("flatten_index", rows).at(given.at).value(given.wide).at(at);
    launch.size(rows).value(*depth as i32).value(sizes).complaint().launch();
    let slices = x[..*depth].iter().product();
    Ok((Indices { at, wide: 1, count: rows }, slices, x[*depth..].iter().product()))
}

pub(super) fn gather_nd(l: &mut Lowering<'_>) -> Outcome {
    let (x, index, out) = (l.input("X")?.dense()?, l.input("Index")?, l.output("Out")?);
    let (indices, slices, width) = flattened(l, &index, &x.dims)?;
    take_slices(l, (&x, 1, slices, width), indices, out.at)
}

pub(super) fn gather_nd_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, index) = (l.input("X")?, l.input("Index")?);
    let (dout, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let (indices, places, width) = flattened(l, &index, &x.dims)?;
    add_back(l, indices, Places { tables: 1, places, width }, &dout, &dx)
}
