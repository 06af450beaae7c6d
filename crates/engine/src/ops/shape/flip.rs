//! `flip`: some axes backwards.

use bireme_ir::{Op, grad_name};

use super::dims::axis_in;
use super::strided_walk::StridedWalk;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("flip", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::required("axis", AttrKind::Ints)])
    .like(&[("Out", "X")])
    .grad(GradRule::Fn(grad))
    .split(SplitRule::Fn(split));

/// The gradient is turned back the same way.
fn grad(view: &OpView<'_>) -> Result<Vec<Op>> {
    let op = Op::new("flip")
        .input("X", view.op.outputs_of("Out").iter().map(|out| grad_name(out)))
        .output("Out", view.op.inputs_of("X").iter().map(|x| grad_name(x)))
        .attr("axis", view.attr("axis")?);
    Ok(vec![op])
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let (axes, rank) = (view.op.longs("axis").ok()?, view.meta("X")?.rank());
    let inside = axes.iter().all(|axis| axis_in(*axis, rank).is_ok_and(|axis| axis > 0));
    if inside { SplitRule::RowWise.apply(view) } else { None }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, axes) = (op.input("X")?, op.output("Out")?, op.longs("axis")?);
    let mut walk = StridedWalk::default();
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let (dims, strides) = (x.dims(), x.dims().strides());
        let turns =
            |at: usize| axes.iter().any(|axis| axis_in(*axis, dims.len()).is_ok_and(|a| a == at));
        axes.iter().try_for_each(|axis| axis_in(*axis, dims.len()).map(|_| ()))?;
        let last = |at: usize| dims[at].saturating_sub(1) * strides[at];
        walk.start((0..dims.len()).filter(|at| turns(*at)).map(last).sum());
        for at in 0..dims.len() {
            let stride = strides[at] as isize;
            walk.axis(dims[at], if turns(at) { -stride } else { stride });
        }
        out.resize(x.dtype(), dims);
        walk.read(x, out);
        Ok(())
    }))
}
