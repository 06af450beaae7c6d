//! Tensors repeated along axes; gradients sum over what was repeated.

use crate::lower::lowering::Lowering;
use crate::lower::walk::{Path, strides};
use crate::lower::{Outcome, Var, host};

pub(super) fn expand(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["Shape", "expand_shapes_tensor"])?;
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let steps = expanded(&x.dims, &out.dims)?;
    l.move_along(&Path::read(0, &out.dims, &steps), x.at, out.at, x.dtype.size())
}

pub(super) fn expand_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, dout, dx) = (l.input("X")?, l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let steps = expanded(&x.dims, &dout.dims)?;
    let axes = dout.dims.iter().copied().zip(steps).collect::<Vec<_>>();
    sum_repeated(l, &axes, &dout, &dx)
}

/// How far one step along each axis of the result leads in `x`: nowhere where it is repeated.
fn expanded(x: &[usize], out: &[usize]) -> Outcome<Vec<i64>> {
    let Some(new) = out.len().checked_sub(x.len()) else { return host() };
    let steps = strides(x);
    let step = |at: usize| {
        let repeated = at < new || x[at - new] != out[at];
        if repeated { 0 } else { steps[at - new] }
    };
    Ok((0..out.len()).map(step).collect())
}

/// Sums `dout`, whose axes lead in `dx` as they say, to `dx`.
fn sum_repeated(l: &mut Lowering<'_>, axes: &[(usize, i64)], dout: &Var, dx: &Var) -> Outcome {
    let lens: Vec<usize> = axes.iter().map(|(len, _)| *len).collect();
    let steps = strides(&lens);
    let (mut kept, mut summed) = (Path::default(), Path::default());
    for ((len, to), step) in axes.iter().zip(steps) {
        match to {
            0 => summed.axis(*len, step, 0),
            _ => kept.axis(*len, step, *to),
        }
    }
    // An axis of one element leads nowhere, but a sum needs each of its results.
    if kept.count() != dx.numel() {
        return host();
    }
    if summed.axes.is_empty() {
        return l.move_along(&kept, dout.at, dx.at, dx.dtype.size());
    }
    l.sum_along(&kept, &summed, dout.at, dx)
}

pub(super) fn tile(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["RepeatTimes", "repeat_times_tensor"])?;
    l.decline_values_in(&["ExpandTimes", "expand_times_tensor"])?;
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let axes = tiled(&x.dims, &out.dims)?;
    let lens: Vec<usize> = axes.iter().map(|(len, _)| *len).collect();
    let steps: Vec<i64> = axes.iter().map(|(_, step)| *step).collect();
    l.move_along(&Path::read(0, &lens, &steps), x.at, out.at, x.dtype.size())
}

pub(super) fn tile_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, dout, dx) = (l.input("X")?, l.input("Out@GRAD")?.dense()?, l.output("X@GRAD")?);
    let axes = tiled(&x.dims, &dout.dims)?;
    sum_repeated(l, &axes, &dout, &dx)
}

/// Each axis of the result is two: the repeats, and the axis of `x`.
fn tiled(x: &[usize], out: &[usize]) -> Outcome<Vec<(usize, i64)>> {
    let Some(new) = out.len().checked_sub(x.len()) else { return host() };
    let steps = strides(x);
    let mut axes = Vec::new();
    for (at, len) in out.iter().enumerate() {
        let (dim, step) = if at < new { (1, 1) } else { (x[at - new], steps[at - new]) };
        axes.push((len.checked_div(dim).unwrap_or(0), 0));
        axes.push((dim, step));
    }
    Ok(axes)
}

pub(super) fn meshgrid(l: &mut Lowering<'_>) -> Outcome {
    let (inputs, outputs) = (l.inputs("X"), l.outputs("Out"));
    for (axis, (x, out)) in inputs.iter().zip(&outputs).enumerate() {
        let steps: Vec<i64> = (0..out.dims.len()).map(|at| i64::from(at == axis)).collect();
        l.move_along(&Path::read(0, &out.dims, &steps), x.at, out.at, x.dtype.size())?;
    }
    Ok(())
}

pub(super) fn meshgrid_grad(l: &mut Lowering<'_>) -> Outcome {
    let (inputs, douts) = (l.inputs("X"), l.inputs("outputs@GRAD"));
    let dxs = l.wanted_outputs("X@GRAD");
    if douts.len() != inputs.len() || dxs.len() != inputs.len() {
        return host();
    }
    for (axis, (dout, dx)) in douts.iter().zip(&dxs).enumerate() {
        let Some(dx) = dx else { continue };
        if dout.dims.get(axis) != Some(&dx.numel()) {
            return host();
        }
        let along = |(at, len): (usize, &usize)| (*len, i64::from(at == axis));
        let axes: Vec<_> = dout.dims.iter().enumerate().map(along).collect();
        sum_repeated(l, &axes, dout, dx)?;
    }
    Ok(())
}
