//! `expand_v2` and `expand_as_v2`: dimensions of size 1, and missing ones, repeated to fill a
//! shape. The gradient sums over what was repeated.

use super::dims::{ranked, signed, sized};
use super::given::Given;
use super::strided_walk::StridedWalk;
use crate::ops::prelude::*;

const TENSORS: [Slot; 2] = [Slot::maybe("Shape"), Slot::any("expand_shapes_tensor")];

pub(super) const DEF: OpDef = OpDef::new("expand_v2", |op| kernel(op, Given::shape(op)?, None))
    .inputs(&[Slot::one("X"), TENSORS[0], TENSORS[1]])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::ints("shape", &[])])
    .infer(infer)
    .split(SplitRule::Fn(|view| split(view, "shape")))
    .gradient(
        Gradient::new(&["X"], grad_kernel)
            .reads(&["X", "Shape", "expand_shapes_tensor"])
            .second(second::repeated)
            .split(SplitRule::Fn(split_grad)),
    );

pub(super) const AS: OpDef = OpDef::new("expand_as_v2", |op| {
    kernel(op, Given::attr(op, "target_shape")?, op.maybe_input("Y"))
})
.inputs(&[Slot::one("X"), Slot::maybe("Y")])
.outputs(&[Slot::one("Out")])
.attrs(&[attr::ints("target_shape", &[])])
.infer(infer_as)
.split(SplitRule::Fn(|view| split(view, "target_shape")))
.gradient(
    Gradient::new(&["X"], grad_kernel)
        .reads(&["X"])
        .second(second::repeated)
        .split(SplitRule::Fn(split_grad)),
);

impl Given {
    fn shape(op: &OpView<'_>) -> Result<Given> {
        Given::new(op, "shape", "Shape", "expand_shapes_tensor")
    }
}

/// The dimensions of `Out`: those wanted, where -1 keeps the one of `X`.
fn target(x: &[i64], want: &[i64]) -> Result<Vec<i64>> {
    let refuse = || Error::kernel(format!("cannot expand {x:?} to {want:?}"));
    let new = want.len().checked_sub(x.len()).ok_or_else(refuse)?;
    let mut out = want.to_vec();
    for (at, out) in out.iter_mut().enumerate() {
        let old = if at < new { 1 } else { x[at - new] };
        *out = match (*out, old) {
            (-1, _) if at < new => return Err(refuse()),
            (-1, old) => old,
            (want, -1 | 1) if want >= 0 => want,
            (want, old) if want == old => want,
            _ => return Err(refuse()),
        };
    }
    ranked(out)
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, given) = (cx.input("X")?, Given::shape(cx.op())?);
    let dims = match given.known() {
        Some(want) => target(&x.dims, want)?,
        None => ranked(given.guess(cx)?)?,
    };
    cx.set("Out", x.with_dims(dims));
    Ok(())
}

fn infer_as(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let dims = match cx.maybe_input("Y") {
        Some(y) => {
            let new = y.rank().saturating_sub(x.rank());
            // Where `Y` is unknown, `X` settles the dimension unless it may be repeated.
            let settled = |at: usize| at >= new && x.dims[at - new] > 1;
            let want = |(at, dim): (usize, &i64)| if settled(at) { *dim } else { dim.abs() };
            let mut dims =
                target(&x.dims, &y.dims.iter().enumerate().map(want).collect::<Vec<_>>())?;
            for (at, dim) in dims.iter_mut().enumerate() {
                if y.dims[at] == -1 && !settled(at) {
                    *dim = -1;
                }
            }
            dims
        }
        None => target(&x.dims, &cx.op().longs("target_shape")?)?,
    };
    cx.set("Out", x.with_dims(dims));
    Ok(())
}

/// Row by row when the batch dimension is not one that a constant shape fixes.
fn split(view: &SplitView<'_>, shape: &str) -> Option<Vec<Spread>> {
    let (x, out) = (view.meta("X")?, view.outputs[0].clone());
    let by_tensor = ["Shape", "expand_shapes_tensor"]
        .iter()
        .any(|slot| view.op.op.inputs.get(*slot).is_some_and(|vars| !vars.is_empty()));
    let by_y = view.inputs.len() == 2 && view.spreads[1] == Spread::Rows;
    let keeps = view.op.longs(shape).is_ok_and(|want| want.first() == Some(&-1));
    let rows = match view.spread("X") {
        Spread::Rows => x.rank() == out.rank() && x.dims[0] == out.dims[0] && (by_y || keeps),
        Spread::Whole => by_y,
        Spread::Partial => false,
    };
    if by_tensor || !rows { None } else { SplitRule::RowWise.apply(view) }
}

fn split_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let (x, dout) = (view.meta("X")?, view.meta("Out@GRAD")?);
    let shared = x.rank() < dout.rank() || x.dims.first() == Some(&1);
    match (view.spread("X"), view.spread("Out@GRAD")) {
        (Spread::Rows, Spread::Rows) if x.rank() == dout.rank() => Some(vec![Spread::Rows]),
        (Spread::Whole, Spread::Rows) if shared => Some(vec![Spread::Partial]),
        _ => None,
    }
}

fn kernel(op: &OpView<'_>, mut given: Given, like: Option<In>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let mut walk = StridedWalk::default();
    // The shapes of the last step, whose answer still holds when they have not changed.
    let mut last = None;
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let like = like.map(|like| run.dims(like)).transpose()?;
        if given.known().is_none() || last != Some((x.dims(), like, out.dims())) {
            let dims = match like {
                Some(like) => target(&signed(&x.dims()), &signed(&like))?,
                None => target(&signed(&x.dims()), given.read(run)?)?,
            };
            out.resize(x.dtype(), sized(&dims)?);
            last = Some((x.dims(), like, out.dims()));
        }
        repeat(&mut walk, x.dims(), out.dims());
        walk.read(x, out);
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dout, mut dx) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let (mut walk, mut last) = (StridedWalk::default(), None);
    Ok(Box::new(move |run| {
        let (dims, dout, dx) = (run.dims(x)?, run.tensor(dout)?, run.out(&mut dx)?);
        if last != Some((dims, dout.dims())) {
            target(&signed(&dims), &signed(&dout.dims()))?;
            last = Some((dims, dout.dims()));
        }
        dx.resize(dout.dtype(), dims);
        repeat(&mut walk, dims, dout.dims());
        walk.add(dout, dx)
    }))
}

fn repeat(walk: &mut StridedWalk, x: Dims, out: Dims) {
    let (new, strides) = (out.len() - x.len(), x.strides());
    walk.start(0);
    for (at, len) in out.iter().enumerate() {
        let repeated = at < new || x[at - new] != *len;
        walk.axis(*len, if repeated { 0 } else { strides[at - new] as isize });
    }
}
