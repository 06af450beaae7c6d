//! Lanes: the lines of elements along one axis, and their gradients.
//!
//! Order is total, so results do not depend on an algorithm: not-a-number is larger than every
//! number, and of equal elements the one with the smaller index comes first.

use std::cmp::Ordering;

use bireme_ir::{Attr, Op, grad_name};

use crate::ops::prelude::*;
use crate::ops::shape::dims::axis_in;

/// A tensor seen as lanes along an axis: `outer * inner` lanes of `len` elements, `inner` apart.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    pub(super) outer: usize,
    pub(super) len: usize,
    pub(super) inner: usize,
}

impl Lanes {
    pub(super) fn new(dims: Dims, axis: usize) -> Lanes {
        // A scalar is one lane of one element.
        let len = dims.get(axis).copied().unwrap_or(1);
        let inner = if dims.is_empty() { 1 } else { dims.tail(axis + 1) };
        Lanes { outer: dims.iter().take(axis).product(), len, inner }
    }

    /// The start of each lane, in the order of the other axes, in a tensor whose axis has `len`.
    pub(super) fn starts(self, len: usize) -> impl Iterator<Item = usize> {
        let inner = self.inner;
        (0..self.outer * inner).map(move |lane| lane / inner * len * inner + lane % inner)
    }
}

/// The gradient of the gradient of sorted or chosen elements: those at `Indices`.
pub(super) fn second(view: &OpView<'_>) -> Result<Vec<Op>> {
    let axis = view.maybe_attr("axis").unwrap_or(Attr::Int(-1));
    let grads = |vars: &[String]| vars.iter().map(|var| grad_name(var)).collect::<Vec<_>>();
    let op = Op::new("take_along_axis")
        .input("Input", grads(view.op.outputs_of("X@GRAD")))
        .input("Index", view.op.inputs_of("Indices").to_vec())
        .output("Result", grads(view.op.inputs_of("Out@GRAD")))
        .attr("Axis", axis);
    Ok(vec![op])
}

/// Not-a-number is the largest.
pub(super) fn order<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| {
        let nan = |x: &T| x.partial_cmp(x).is_none();
        nan(a).cmp(&nan(b))
    })
}

/// The axis of attribute `axis`; a scalar has one as if it were a list.
pub(super) fn axis_of(axis: i64, rank: usize) -> Result<usize> {
    axis_in(axis, rank.max(1))
}

/// Row by row, unless attribute `axis` (the last one, where there is none) is the batch itself.
pub(super) fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let rank = view.meta("X")?.rank();
    let given = if view.op.maybe_attr("axis").is_some() { view.op.i64("axis").ok()? } else { -1 };
    if axis_of(given, rank).ok()? == 0 { None } else { SplitRule::RowWise.apply(view) }
}

/// `X@GRAD` for an op that chose elements of each lane: zero, but for the gradients of `Out` at
/// `Indices`.
pub(super) fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, indices): (In, In) = (op.input("X")?, op.input("Indices")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let axis = if op.maybe_attr("axis").is_some() { op.i64("axis")? } else { -1 };
    Ok(Box::new(move |run| {
        let (dims, dout, dx) = (run.dims(x)?, run.tensor(dout)?, run.out(&mut dx)?);
        let axis = axis_of(axis, dims.len())?;
        let indices = run.get::<i64>(indices)?;
        dx.resize(dout.dtype(), dims);
        dx.as_mut_bytes().fill(0);
        put_back(dx, dout, indices, axis)
    }))
}

fn put_back(dx: &mut Tensor, dout: &Tensor, indices: &[i64], axis: usize) -> Result<()> {
    let (lanes, chosen) = (Lanes::new(dx.dims(), axis), Lanes::new(dout.dims(), axis));
    if indices.len() != dout.numel() {
        return Err(Error::kernel("`Indices` and `Out@GRAD` differ in shape"));
    }
    dispatch!(dout.dtype(), T in [f32, f64, i32, i64] => {
        let (dx, dout) = (dx.as_mut_slice::<T>()?, dout.as_slice::<T>()?);
        for (to, from) in lanes.starts(lanes.len).zip(chosen.starts(chosen.len)) {
            for at in (0..chosen.len).map(|i| from + i * chosen.inner) {
                let index = usize::try_from(indices[at]).ok().filter(|index| *index < lanes.len);
                let index = index.ok_or_else(|| {
                    Error::kernel(format!("index {} lies outside 0..{}", indices[at], lanes.len))
                })?;
                dx[to + index * lanes.inner] = dout[at];
            }
        }
        Ok(())
    }, else => Err(Error::kernel(format!("no gradient of {} elements", dout.dtype()))))
}

/// The elements of one lane with their indices, into scratch memory that is kept.
pub(super) fn load<T: Element>(scratch: &mut Vec<(T, u32)>, x: &[T], start: usize, lanes: Lanes) {
    scratch.clear();
    scratch.extend((0..lanes.len).map(|i| (x[start + i * lanes.inner], i as u32)));
}
