//! Axes in another order, or backwards.

use crate::lower::Outcome;
use crate::lower::axes::axis_in;
use crate::lower::lowering::{Lowering, invalid};
use crate::lower::walk::{Path, strides};

pub(super) fn transpose(l: &mut Lowering<'_>) -> Outcome {
    let order = order(l)?;
    permute(l, "X", "Out", &order)
}

pub(super) fn transpose_grad(l: &mut Lowering<'_>) -> Outcome {
    let order = order(l)?;
    let mut back = vec![0; order.len()];
    for (to, from) in order.iter().enumerate() {
        back[*from] = to;
    }
    permute(l, "Out@GRAD", "X@GRAD", &back)
}

/// Which axis of `X` each axis of `Out` is.
fn order(l: &Lowering<'_>) -> Outcome<Vec<usize>> {
    let given = l.op.longs("axis")?;
    let order: Vec<usize> =
        given.iter().map(|axis| axis_in(*axis, given.len())).collect::<Outcome<_>>()?;
    if (0..order.len()).all(|axis| order.contains(&axis)) {
        return Ok(order);
    }
    Err(invalid(format!("attribute `axis` {given:?} does not name each axis once")))
}

fn permute(l: &mut Lowering<'_>, from: &str, to: &str, order: &[usize]) -> Outcome {
    let (x, out) = (l.input(from)?.dense()?, l.output(to)?);
    if x.dims.len() != order.len() {
        return Err(invalid(format!("cannot put the axes of {:?} in order {order:?}", x.dims)));
    }
    let steps = strides(&x.dims);
    let dims: Vec<usize> = order.iter().map(|axis| x.dims[*axis]).collect();
    let from: Vec<i64> = order.iter().map(|axis| steps[*axis]).collect();
    l.move_along(&Path::read(0, &dims, &from), x.at, out.at, x.dtype.size())
}

pub(super) fn flip(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    let (mut steps, mut offset) = (strides(&x.dims), 0);
    let mut turned = vec![false; x.dims.len()];
    for axis in l.op.longs("axis")? {
        turned[axis_in(axis, x.dims.len())?] = true;
    }
    for at in (0..x.dims.len()).filter(|at| turned[*at]) {
        offset += (x.dims[at] as i64 - 1).max(0) * steps[at];
        steps[at] = -steps[at];
    }
    l.move_along(&Path::read(offset, &x.dims, &steps), x.at, out.at, x.dtype.size())
}
