//! `roll`: elements moved along axes; what leaves at one end comes back at the other.
//!
//! Without axes the tensor is moved as one list.

use super::dims::axis_in;
use super::given::Given;
use super::relocate::Relocate;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("roll", |op| kernel(op, "X", "Out"))
    .inputs(&[Slot::one("X"), Slot::maybe("ShiftsTensor")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::longs("shifts", &[]), attr::longs("axis", &[])])
    .like(&[("Out", "X")])
    .split(SplitRule::Fn(split))
    .gradient(
        Gradient::new(&["X"], |op| kernel(op, "Out@GRAD", "X@GRAD"))
            .reads(&["X", "ShiftsTensor"])
            .optional(&["X"])
            .like("Out@GRAD"),
    );

/// Row by row unless the batch itself is moved.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let (axes, rank) = (view.op.longs("axis").ok()?, view.outputs[0].rank());
    let inside = axes.iter().all(|axis| axis_in(*axis, rank).is_ok_and(|axis| axis > 0));
    let fixed = view.op.maybe_input("ShiftsTensor").is_none();
    if inside && fixed && !axes.is_empty() { SplitRule::RowWise.apply(view) } else { None }
}

fn kernel(op: &OpView<'_>, from: &str, to: &str) -> Result<Kernel> {
    let (x, mut out, axes) = (op.input(from)?, op.output(to)?, op.longs("axis")?);
    let mut shifts = Given::new(op, "shifts", "ShiftsTensor", "ShiftsTensor")?;
    // The gradient moves everything back.
    let sign = if from == "X" { 1 } else { -1 };
    let mut relocate = Relocate::default();
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let shifts = shifts.read(run)?;
        let flat = axes.is_empty();
        let dims = if flat { Dims::new(&[x.numel()]) } else { x.dims() };
        if shifts.len() != axes.len().max(1) {
            let problem = format!("{} shifts do not fit axes {axes:?}", shifts.len());
            return Err(Error::kernel(problem));
        }
        let mut moves = [0; MAX_RANK];
        for (i, shift) in shifts.iter().enumerate() {
            let axis = if flat { 0 } else { axis_in(axes[i], dims.len())? };
            let len = (dims[axis] as i64).max(1);
            moves[axis] = (moves[axis] + sign * (shift % len)).rem_euclid(len);
        }
        relocate.set(
            dims,
            |axis| dims[axis],
            |axis, at| (at + dims[axis] - moves[axis] as usize) % dims[axis],
        );
        out.resize(x.dtype(), x.dims());
        relocate.read(x, out);
        Ok(())
    }))
}
