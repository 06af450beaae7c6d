//! `transpose2` and the older `transpose`: the axes in another order.

use super::dims::{axis_in, ranked};
use super::relabel;
use super::strided_walk::StridedWalk;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("transpose2", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out"), Slot::maybe("XShape")])
    .attrs(&[attr::required("axis", AttrKind::Ints)])
    .infer(infer)
    .split(SplitRule::Fn(|view| split(view, "X")))
    .gradient(
        Gradient::new(&["X"], grad_kernel)
            .reads(&["XShape"])
            .second(second::linear)
            .infer(relabel::infer_grad)
            .split(SplitRule::Fn(|view| split(view, "Out@GRAD"))),
    );

pub(super) const OLD: OpDef = OpDef::new("transpose", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::required("axis", AttrKind::Ints), attr::str("data_format", "AnyLayout")])
    .infer(infer)
    .split(SplitRule::Fn(|view| split(view, "X")))
    .gradient(
        Gradient::new(&["X"], grad_kernel)
            .reads(&["X"])
            .accepts(&["Out"])
            .second(second::linear)
            .split(SplitRule::Fn(|view| split(view, "Out@GRAD"))),
    );

/// Rows stay rows when the first axis stays first; the pieces of a sum may turn as they like.
fn split(view: &SplitView<'_>, slot: &str) -> Option<Vec<Spread>> {
    let first = axis_in(*view.op.longs("axis").ok()?.first()?, view.meta(slot)?.rank()).ok()?;
    let spread = view.spread(slot);
    let fits = spread == Spread::Partial || (spread == Spread::Rows && first == 0);
    let main = |slot: &str| if slot == "XShape" { Spread::Whole } else { spread };
    fits.then(|| view.outputs_by_slot(main)).flatten()
}

/// Which axis of `X` each axis of `Out` is.
fn order(op: &OpView<'_>) -> Result<Vec<usize>> {
    let given = op.longs("axis")?;
    let order: Vec<usize> =
        given.iter().map(|axis| axis_in(*axis, given.len())).collect::<Result<_>>()?;
    if (0..order.len()).all(|axis| order.contains(&axis)) && order.len() <= MAX_RANK {
        return Ok(order);
    }
    Err(Error::kernel(format!("attribute `axis` {given:?} does not name each axis once")))
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, order) = (cx.input("X")?, order(cx.op())?);
    if order.len() != x.rank() {
        let problem = format!("attribute `axis` {order:?} does not fit `X` {:?}", x.dims);
        return Err(Error::kernel(problem));
    }
    let mut out = x.with_dims(order.iter().map(|axis| x.dims[*axis]).collect::<Vec<_>>());
    out.lod_level = 0;
    cx.set("Out", out);
    if cx.op().def.name == "transpose2" {
        let xshape = Meta::new(x.dtype, ranked([&[0], x.dims.as_slice()].concat())?);
        cx.set("XShape", xshape);
    }
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, order) = (op.input("X")?, op.output("Out")?, order(op)?);
    let mut walk = StridedWalk::default();
    Ok(Box::new(move |run| permute(&mut walk, &order, run.tensor(x)?, run.out(&mut out)?)))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (dout, mut dx, order) = (op.input("Out@GRAD")?, op.output("X@GRAD")?, order(op)?);
    let mut back = vec![0; order.len()];
    for (to, from) in order.iter().enumerate() {
        back[*from] = to;
    }
    let mut walk = StridedWalk::default();
    Ok(Box::new(move |run| permute(&mut walk, &back, run.tensor(dout)?, run.out(&mut dx)?)))
}

fn permute(walk: &mut StridedWalk, order: &[usize], x: &Tensor, out: &mut Tensor) -> Result<()> {
    let (dims, strides) = (x.dims(), x.dims().strides());
    if dims.len() != order.len() {
        return Err(Error::kernel(format!("cannot put the axes of {dims} in order {order:?}")));
    }
    let mut turned = [0; MAX_RANK];
    walk.start(0);
    for (turned, axis) in turned.iter_mut().zip(order) {
        *turned = dims[*axis];
        walk.axis(dims[*axis], strides[*axis] as isize);
    }
    out.resize(x.dtype(), Dims::new(&turned[..order.len()]));
    walk.read(x, out);
    Ok(())
}
