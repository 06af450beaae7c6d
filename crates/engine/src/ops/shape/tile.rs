//! `tile`, and `expand` of Paddle 1.x: a tensor repeated along each axis; the gradient sums over the
//! repeats.

use super::dims::{ranked, signed, sized};
use super::given::Given;
use super::strided_walk::StridedWalk;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("tile", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("RepeatTimes"), Slot::any("repeat_times_tensor")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::ints("repeat_times", &[])])
    .infer(infer)
    .split(SplitRule::Fn(split))
    .gradient(Gradient::new(&["X"], grad_kernel).second(second::linear).reads(&[
        "X",
        "RepeatTimes",
        "repeat_times_tensor",
    ]));

pub(super) const EXPAND: OpDef = OpDef::new("expand", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("ExpandTimes"), Slot::any("expand_times_tensor")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::ints("expand_times", &[])])
    .infer(infer)
    .split(SplitRule::Fn(split))
    .gradient(Gradient::new(&["X"], grad_kernel).second(second::linear).reads(&[
        "X",
        "ExpandTimes",
        "expand_times_tensor",
    ]));

fn given(op: &OpView<'_>) -> Result<Given> {
    if op.def.name.starts_with("expand") {
        return Given::new(op, "expand_times", "ExpandTimes", "expand_times_tensor");
    }
    Given::new(op, "repeat_times", "RepeatTimes", "repeat_times_tensor")
}

/// The dimensions of `Out`; the shorter of the two lists is filled up with 1 at its front.
fn tiled(x: &[i64], times: &[i64]) -> Result<Vec<i64>> {
    let rank = x.len().max(times.len());
    let padded =
        |list: &[i64], at: usize| (at + list.len()).checked_sub(rank).map_or(1, |i| list[i]);
    if times.iter().any(|times| *times < -1) {
        return Err(Error::kernel(format!("cannot repeat {times:?} times")));
    }
    let dim = |at| match (padded(x, at), padded(times, at)) {
        (-1, _) | (_, -1) => -1,
        (dim, times) => dim.saturating_mul(times),
    };
    ranked((0..rank).map(dim).collect())
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, given) = (cx.input("X")?, given(cx.op())?);
    let dims = match given.known() {
        Some(times) => tiled(&x.dims, times)?,
        None => ranked(vec![-1; x.rank().max(given.count(cx)?)])?,
    };
    let mut out = x.with_dims(dims);
    out.lod_level = 0;
    cx.set("Out", out);
    Ok(())
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let (rank, given) = (view.meta("X")?.rank(), given(view.op).ok()?);
    let times = given.known()?;
    let once = times.len() < rank || (times.len() == rank && times[0] == 1);
    if once && view.spread("X") == Spread::Rows { SplitRule::RowWise.apply(view) } else { None }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, mut given) = (op.input("X")?, op.output("Out")?, given(op)?);
    // The shapes of the last step, whose answer still holds when they have not changed.
    let (mut walk, mut last) = (StridedWalk::default(), None);
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        if given.known().is_none() || last != Some((x.dims(), out.dims())) {
            out.resize(x.dtype(), sized(&tiled(&signed(&x.dims()), given.read(run)?)?)?);
            last = Some((x.dims(), out.dims()));
        }
        repeat(&mut walk, x.dims(), out.dims());
        walk.read(x, out);
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dout, mut dx) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let mut walk = StridedWalk::default();
    Ok(Box::new(move |run| {
        let (dims, dout, dx) = (run.dims(x)?, run.tensor(dout)?, run.out(&mut dx)?);
        if dout.dims().len() < dims.len() {
            let problem = format!("`Out@GRAD` {} cannot come from {dims}", dout.dims());
            return Err(Error::kernel(problem));
        }
        dx.resize(dout.dtype(), dims);
        repeat(&mut walk, dims, dout.dims());
        walk.add(dout, dx)
    }))
}

/// Each axis of `Out` is two: the repeats, and the axis of `X`.
fn repeat(walk: &mut StridedWalk, x: Dims, out: Dims) {
    let (new, strides) = (out.len() - x.len(), x.strides());
    walk.start(0);
    for (at, len) in out.iter().enumerate() {
        let (dim, stride) = if at < new { (1, 1) } else { (x[at - new], strides[at - new]) };
        walk.axis(len.checked_div(dim).unwrap_or(0), 0);
        walk.axis(dim, stride as isize);
    }
}
