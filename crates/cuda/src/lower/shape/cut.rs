//! Part of some axes of a tensor; the gradient is zero around it.

use super::around;
use crate::lower::axes::axis_in;
use crate::lower::lowering::{Lowering, invalid};
use crate::lower::walk::{Path, strides};
use crate::lower::{Outcome, Var, host};

/// The part of one axis: its first index, the step to the next, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) first: i64,
    pub(super) step: i64,
    pub(super) count: usize,
}

/// Bounds that tensors give are not known now.
const VALUES: &[&str] = &[
    "StartsTensor",
    "EndsTensor",
    "StartsTensorList",
    "EndsTensorList",
    "StridesTensor",
    "StridesTensorList",
];

pub(super) fn slice(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(VALUES)?;
    let (x, out) = (l.input("Input")?.dense()?, l.output("Out")?);
    let parts = sliced(l, &x)?;
    let path = path(&parts, &x.dims);
    if path.count() != out.numel() {
        return host();
    }
    l.move_along(&path, x.at, out.at, x.dtype.size())
}

pub(super) fn slice_grad(l: &mut Lowering<'_>) -> Outcome {
    l.decline_values_in(VALUES)?;
    let (x, dout, dx) = (l.input("Input")?, l.input("Out@GRAD")?.dense()?, l.output("Input@GRAD")?);
    let parts = sliced(l, &x)?;
    let path = path(&parts, &x.dims);
    if path.count() != dout.numel() || dx.bytes() != x.numel() * dout.dtype.size() {
        return host();
    }
    if parts.iter().all(|part| part.step == 1) && path.count() > 0 {
        let before: Vec<i64> = parts.iter().map(|part| part.first).collect();
        let inner: Vec<usize> = parts.iter().map(|part| part.count).collect();
        return around::with_constant(l, (&dout, &inner), (&dx, &x.dims), &before, 0);
    }
    l.clear(dx.at, dx.bytes());
    let back = reversed(&path);
    if back.count() == 0 {
        return Ok(());
    }
    l.move_along(&back, dout.at, dx.at, dx.dtype.size())
}

/// From the part to the whole.
pub(super) fn reversed(path: &Path) -> Path {
    let mut back = Path { from: path.to, to: path.from, axes: path.axes.clone() };
    for axis in &mut back.axes {
        (axis.from, axis.to) = (axis.to, axis.from);
    }
    back
}

/// From a tensor of shape `dims` to what is cut out of it.
pub(super) fn path(parts: &[Part], dims: &[usize]) -> Path {
    let steps = strides(dims);
    let first = parts.iter().zip(&steps).map(|(part, step)| part.first * step).sum();
    let counts: Vec<usize> = parts.iter().map(|part| part.count).collect();
    let steps: Vec<i64> = parts.iter().zip(&steps).map(|(part, step)| part.step * step).collect();
    Path::read(first, &counts, &steps)
}

fn sliced(l: &Lowering<'_>, x: &Var) -> Outcome<Vec<Part>> {
    let strided = l.op.def.name.starts_with("strided");
    let strides = if strided { Some(l.op.longs("strides")?) } else { None };
    let bounds = Bounds {
        axes: l.op.longs("axes")?,
        starts: l.op.longs("starts")?,
        ends: l.op.longs("ends")?,
        strides,
        dropped: l.op.longs("decrease_axis")?,
        to_front: false,
    };
    bounds.parts(&x.dims)
}

/// What attributes say of a part.
pub(super) struct Bounds {
    pub(super) axes: Vec<i64>,
    pub(super) starts: Vec<i64>,
    pub(super) ends: Vec<i64>,
    pub(super) strides: Option<Vec<i64>>,
    /// Axes that the result does not have.
    pub(super) dropped: Vec<i64>,
    /// Whether an end before the front, going backwards, includes the front.
    pub(super) to_front: bool,
}

impl Bounds {
    /// The part of each axis of a tensor of shape `dims`; the same that the host's kernel takes.
    pub(super) fn parts(&self, dims: &[usize]) -> Outcome<Vec<Part>> {
        let count = self.axes.len();
        let strides = self.strides.as_ref();
        if self.starts.len() != count
            || self.ends.len() != count
            || strides.is_some_and(|strides| strides.len() != count)
        {
            return Err(invalid(format!("{count} axes need as many starts and ends")));
        }
        let whole = |dim: &usize| Part { first: 0, step: 1, count: *dim };
        let mut parts: Vec<Part> = dims.iter().map(whole).collect();
        for (i, axis) in self.axes.iter().enumerate() {
            let at = axis_in(*axis, dims.len())?;
            let (start, mut end, dim) = (self.starts[i], self.ends[i], dims[at] as i64);
            let stride = strides.map_or(1, |strides| strides[i]);
            if self.to_front && stride < 0 && end < -dim {
                end = -1;
            }
            // The last element by a bound that a tensor gives: `start + 1` is then 0.
            if self.dropped.contains(axis) && start == -1 && end == 0 {
                end = dim;
            }
            parts[at] = part(start, end, stride, dim)?;
        }
        Ok(parts)
    }
}

fn part(start: i64, end: i64, stride: i64, dim: i64) -> Outcome<Part> {
    let wrap = |bound: i64| if bound < 0 { (bound + dim).max(0) } else { bound };
    let (first, room) = match stride {
        // The host says what is wrong with a stride of 0.
        0 => return host(),
        1.. => (wrap(start).min(dim), wrap(end).min(dim) - wrap(start).min(dim)),
        _ => {
            // -1 means "to the very front" when going backwards: Paddle's form of an omitted end.
            let end = if end == -1 { -1 } else { wrap(end) };
            if wrap(start) < end {
                return host();
            }
            let start = wrap(start).min(dim - 1);
            (start, (start - end).max(0))
        }
    };
    if room < 0 {
        return host();
    }
    let count = room.unsigned_abs().div_ceil(stride.unsigned_abs()) as usize;
    // A step that leads nowhere could be anything; 1 overflows nothing.
    Ok(Part {
        first: if count == 0 { 0 } else { first },
        step: if count > 1 { stride } else { 1 },
        count,
    })
}
