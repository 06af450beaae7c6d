//! Elements of each lane along an axis, by indices in the same lane.

use super::positions::{Along, Indices, Places};
use crate::lower::axes::{around_axis, axis_in};
use crate::lower::lowering::Lowering;
use crate::lower::walk::{MAX_COUNT, word};
use crate::lower::{Outcome, Var, host};

pub(super) fn take_along_axis(l: &mut Lowering<'_>) -> Outcome {
    let (x, index, out) = (l.input("Input")?.dense()?, l.input("Index")?, l.output("Result")?);
    let axis = axis_in(l.op.i64("Axis")?, x.dims.len())?;
    take(l, &x, &index, &out, axis)
}

pub(super) fn take_along_axis_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, index) = (l.input("Input")?, l.input("Index")?);
    let (dout, dx) = (l.input("Result@GRAD")?.dense()?, l.output("Input@GRAD")?);
    let axis = axis_in(l.op.i64("Axis")?, x.dims.len())?;
    add_along(l, &index, axis, &dout, &dx)
}

pub(super) fn index_sample(l: &mut Lowering<'_>) -> Outcome {
    let (x, index, out) = (l.input("X")?.dense()?, l.input("Index")?, l.output("Out")?);
    take(l, &x, &index, &out, 1)
}

pub(super) fn index_sample_grad(l: &mut Lowering<'_>) -> Outcome {
    let index = l.input("Index")?;
    let (dout, dx) = (l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    add_along(l, &index, 1, &dout, &dx)
}

/// The lanes of `index` along an axis of a tensor of shape `dims`.
fn lanes(index: &Var, dims: &[usize], axis: usize) -> Outcome<Along> {
    if index.dims.len() != dims.len() || index.numel() >= MAX_COUNT {
        return host();
    }
    let ((outer, len, inner), (same_outer, count, same_inner)) =
        (around_axis(dims, axis), around_axis(&index.dims, axis));
    if (outer, inner) != (same_outer, same_inner) {
        return host();
    }
    Along::new(count, len, inner)
}

fn take(l: &mut Lowering<'_>, x: &Var, index: &Var, out: &Var, axis: usize) -> Outcome {
    let (along, indices) = (lanes(index, &x.dims, axis)?, Indices::of(index)?);
    let name = format!("take_along_{}", word(x.dtype.size()));
    let launch = l.over(name, indices.count).var(x).at(indices.at).value(indices.wide).var(out);
    launch.value(indices.count as u32).value(along).complaint().launch();
    Ok(())
}

fn add_along(l: &mut Lowering<'_>, index: &Var, axis: usize, dout: &Var, dx: &Var) -> Outcome {
    let (along, indices) = (lanes(index, &dx.dims, axis)?, Indices::of(index)?);
    l.clear(dx.at, dx.bytes());
    if indices.count == 0 {
        return Ok(());
    }
    let sorted = l.sort_indices(indices, along)?;
    l.sum_sorted(sorted, Places { tables: 1, places: dx.numel(), width: 1 }, dout.at, dx)
}

/// Writes elements of `from` to where 64-bit indices say along an axis of `to`, which starts from zero.
pub(in crate::lower) fn put_along(
    l: &mut Lowering<'_>,
    from: &Var,
    index: &Var,
    to: &Var,
    axis: usize,
) -> Outcome {
    // A scalar is a list of one.
    let seen = |dims: &[usize]| if dims.is_empty() { vec![1] } else { dims.to_vec() };
    let index = Var { dims: seen(&index.dims), ..index.clone() };
    let along = lanes(&index, &seen(&to.dims), axis)?;
    if !matches!(to.suffix()?, "f32" | "f64" | "i32" | "i64") {
        return host();
    }
    l.clear(to.at, to.bytes());
    let (name, count) = (format!("put_along_{}", word(to.dtype.size())), index.numel());
    let launch = l.over(name, count).var(from).var(&index).var(to).value(count as u32);
    launch.value(along).complaint().launch();
    Ok(())
}
