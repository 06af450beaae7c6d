//! `unsqueeze2` (and the older `unsqueeze`): inserts dimensions of size 1.

use super::given::Given;
use super::relabel;
use crate::ops::prelude::*;

const INPUTS: &[Slot] = &[Slot::one("X"), Slot::maybe("AxesTensor"), Slot::any("AxesTensorList")];

pub(super) const DEF: OpDef = OpDef::new("unsqueeze2", kernel)
    .inputs(INPUTS)
    .outputs(&[Slot::one("Out"), Slot::maybe("XShape")])
    .attrs(&[attr::ints("axes", &[])])
    .infer(infer)
    .gradient(relabel::BY_SHAPE.accepts(&["AxesTensor", "AxesTensorList"]))
    .split(SplitRule::Fn(relabel::split));

pub(super) const OLD: OpDef = OpDef::new("unsqueeze", kernel)
    .inputs(INPUTS)
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::ints("axes", &[])])
    .infer(infer)
    .gradient(relabel::BY_X)
    .split(SplitRule::Fn(relabel::split));

fn given(op: &OpView<'_>) -> Result<Given> {
    Given::new(op, "axes", "AxesTensor", "AxesTensorList")
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    relabel::kernel(op, given(op)?, shape)
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let given = given(cx.op())?;
    match given.known() {
        Some(axes) => relabel::infer(cx, axes, shape),
        None => {
            let rank = cx.input("X")?.rank() + given.count(cx)?;
            relabel::infer_as(cx, vec![-1; rank])
        }
    }
}

/// The axes are inserted one after the other, each counted in the shape that it then makes.
fn shape(x: &[i64], axes: &[i64]) -> Result<Vec<i64>> {
    let mut out = x.to_vec();
    for axis in axes {
        let rank = out.len() as i64;
        let at = if *axis < 0 { axis + rank + 1 } else { *axis };
        if !(0..=rank).contains(&at) {
            let problem = format!("cannot insert a dimension at {axis} into rank {rank}");
            return Err(Error::kernel(problem));
        }
        out.insert(at as usize, 1);
    }
    Ok(out)
}
