//! Tensors side by side along an axis, and the way back: all parts in one launch.

use bytemuck::{Pod, Zeroable};

use crate::lower::axes::{around_axis, axis_in};
use crate::lower::divider::{Divider, divider};
use crate::lower::lowering::{Lowering, THREADS};
use crate::lower::math::affine;
use crate::lower::walk::{MAX_COUNT, word, word_of};
use crate::lower::{Outcome, Var, host};
use crate::work::Ref;

/// Parts in one launch: the arguments of a kernel have 4 KB.
const MAX_PARTS: usize = 128;

/// Blocks for each part beyond which its threads loop.
const MAX_BLOCKS: usize = 1 << 12;

/// Where parts lie in the rows of the whole, in words.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Parts {
    width: [Divider; MAX_PARTS],
    start: [u32; MAX_PARTS],
}

/// A part, unless nobody wants it, and the bytes of it that lie in each row of the whole.
type Part = (Option<Ref>, usize);

/// Which way elements go.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Join,
    Cut,
}

pub(super) fn concat(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["AxisTensor"])?;
    let (inputs, out) = (l.inputs("X"), l.output("Out")?);
    let axis = axis_in(l.op.i64("axis")?, out.dims.len())?;
    let parts = inputs.iter().map(|x| (Some(x.at), width(x, axis))).collect::<Vec<_>>();
    side_by_side(l, &out, axis, &parts, Direction::Join)
}

pub(super) fn concat_grad(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["AxisTensor"])?;
    let (inputs, dout) = (l.inputs("X"), l.input("Out@GRAD")?.dense()?);
    let (axis, outputs) =
        (axis_in(l.op.i64("axis")?, dout.dims.len())?, l.wanted_outputs("X@GRAD"));
    if inputs.len() != outputs.len() || inputs.iter().any(|x| x.dims.len() != dout.dims.len()) {
        return host();
    }
    let part = |(x, dx): (&Var, Option<Var>)| {
        // The gradient has the type of the whole, whatever that of the part.
        (dx.map(|dx| dx.at), around(x, axis).1 * around(x, axis).2 * dout.dtype.size())
    };
    let parts = inputs.iter().zip(outputs).map(part).collect::<Vec<_>>();
    side_by_side(l, &dout, axis, &parts, Direction::Cut)
}

pub(super) fn split(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(&["AxisTensor", "SectionsTensorList"])?;
    let (x, outputs) = (l.input("X")?.dense()?, l.wanted_outputs("Out"));
    let axis = axis_in(l.op.i64("axis")?, x.dims.len())?;
    let all = l.outputs("Out");
    let part = |(out, wanted): (&Var, Option<Var>)| (wanted.map(|out| out.at), width(out, axis));
    let parts = all.iter().zip(outputs).map(part).collect::<Vec<_>>();
    side_by_side(l, &x, axis, &parts, Direction::Cut)
}

pub(super) fn stack(l: &mut Lowering<'_>, from: &str, to: &str) -> Outcome {
    let (inputs, out) = (l.inputs(from), l.output(to)?);
    let axis = axis_in(l.op.i64("axis")?, out.dims.len())?;
    let width = around(&out, axis).2 * out.dtype.size();
    let parts = inputs.iter().map(|x| (Some(x.at), width)).collect::<Vec<_>>();
    side_by_side(l, &out, axis, &parts, Direction::Join)
}

pub(super) fn unstack(l: &mut Lowering<'_>, from: &str, to: &str) -> Outcome {
    let (x, outputs) = (l.input(from)?.dense()?, l.wanted_outputs(to));
    let axis = axis_in(l.op.i64("axis")?, x.dims.len())?;
    let width = around(&x, axis).2 * x.dtype.size();
    let parts = outputs.into_iter().map(|out| (out.map(|out| out.at), width)).collect::<Vec<_>>();
    side_by_side(l, &x, axis, &parts, Direction::Cut)
}

/// The tensors of a bucket one behind the other.
pub(super) fn gather_bucket(l: &mut Lowering<'_>) -> Outcome {
    let (inputs, out) = (l.inputs("X"), l.output("Out")?);
    let parts = inputs.into_iter().map(|x| Ok((Some(x.at), x.dense()?.bytes())));
    let parts = parts.collect::<Outcome<Vec<_>>>()?;
    side_by_side(l, &out, 0, &parts, Direction::Join)
}

/// The way back, times a number.
pub(super) fn spread_bucket(l: &mut Lowering<'_>) -> Outcome {
    let (x, scale) = (l.input("X")?.dense()?, l.op.f64("scale")?);
    let outputs = l.outputs("Out");
    let from = if scale == 1.0 { x.clone() } else { Var { at: l.scratch(x.bytes()), ..x.clone() } };
    if scale != 1.0 {
        affine(l, &x, &from, scale, 0.0)?;
    }
    let parts = outputs.into_iter().map(|out| Ok((Some(out.at), out.dense()?.bytes())));
    let parts = parts.collect::<Outcome<Vec<_>>>()?;
    side_by_side(l, &from, 0, &parts, Direction::Cut)
}

fn around(var: &Var, axis: usize) -> (usize, usize, usize) {
    around_axis(&var.dims, axis)
}

/// Bytes of `var` from `axis` on: what it has in each row of the whole.
fn width(var: &Var, axis: usize) -> usize {
    let (_, len, inner) = around(var, axis);
    len * inner * var.dtype.size()
}

fn side_by_side(
    l: &mut Lowering<'_>,
    whole: &Var,
    axis: usize,
    parts: &[Part],
    direction: Direction,
) -> Outcome {
    let (rows, row) = (around(whole, axis).0, width(whole, axis));
    if parts.iter().map(|(_, width)| width).sum::<usize>() != row {
        return host();
    }
    let mut start = 0;
    let mut wanted = Vec::new();
    for (at, width) in parts {
        if let (Some(at), true) = (at, *width > 0) {
            wanted.push((*at, start, *width));
        }
        start += width;
    }
    if rows == 0 || wanted.is_empty() {
        return Ok(());
    }
    // Parts of a single row are pieces of memory, which copies move fastest when they are few.
    if rows == 1 && wanted.len() <= 4 {
        for (part, start, width) in wanted {
            match direction {
                Direction::Join => l.copy(part, whole.at.plus(start), width),
                Direction::Cut => l.copy(whole.at.plus(start), part, width),
            }
        }
        return Ok(());
    }
    let bytes = word_of(wanted.iter().flat_map(|(_, start, width)| [*start, *width]).chain([row]));
    if row / bytes >= MAX_COUNT || rows * (row / bytes) >= MAX_COUNT {
        return host();
    }
    let name = if direction == Direction::Join { "join" } else { "cut" };
    for wanted in wanted.chunks(MAX_PARTS) {
        let mut table = Parts::zeroed();
        for (at, (_, start, width)) in wanted.iter().enumerate() {
            table.width[at] = divider(width / bytes);
            table.start[at] = (start / bytes) as u32;
        }
        let widest = wanted.iter().map(|(_, _, width)| width / bytes).max().unwrap_or(0);
        let blocks = (rows * widest).div_ceil(THREADS as usize).min(MAX_BLOCKS) as u32;
        let grid = [blocks, wanted.len() as u32, 1];
        let launch = l.kernel(format!("{name}_{}", word(bytes)), grid, THREADS).var(whole);
        let launch = launch.value((row / bytes) as u32).value(rows as u32);
        let pointers = wanted.iter().map(|(at, ..)| *at);
        launch.refs(pointers, MAX_PARTS).value(table).launch();
    }
    Ok(())
}
