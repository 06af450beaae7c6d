//! `meshgrid`: lists as the axes of a grid; output `i` holds the coordinate along axis `i`.

use super::concat::wanted_outputs;
use super::dims::{ranked, signed, sized};
use super::strided_walk::StridedWalk;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("meshgrid", kernel)
    .inputs(&[Slot::many("X")])
    .outputs(&[Slot::many("Out")])
    .infer(infer)
    .grad(GradRule::Fn(grad));

/// Paddle calls the gradients of the outputs `outputs@GRAD` here.
pub(super) const GRAD: OpDef = OpDef::new("meshgrid_grad", grad_kernel)
    .inputs(&[Slot::many("X"), Slot::many("outputs@GRAD")])
    .outputs(&[Slot::any("X@GRAD")])
    .like(&[("X@GRAD", "X")]);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let inputs = cx.inputs("X");
    let mut dims = Vec::new();
    for x in &inputs {
        match x.dims.as_slice() {
            [] => dims.push(1),
            [len] => dims.push(*len),
            other => return Err(Error::kernel(format!("`X` must be lists, not {other:?}"))),
        }
    }
    let dims = ranked(dims)?;
    if cx.op().op.outputs_of("Out").len() != inputs.len() {
        let problem =
            format!("{} inputs, but {}", inputs.len(), cx.op().op.outputs_of("Out").len());
        return Err(Error::kernel(format!("{problem} outputs: each axis has one")));
    }
    cx.set_each("Out", inputs.iter().map(|x| x.with_dims(dims.clone())));
    Ok(())
}

fn grad(view: &OpView<'_>) -> Result<Vec<bireme_ir::Op>> {
    let gradients = |vars: &[String]| vars.iter().map(|var| bireme_ir::grad_name(var)).collect();
    let douts: Vec<String> = gradients(view.op.outputs_of("Out"));
    let dxs: Vec<String> = gradients(view.op.inputs_of("X"));
    let op = bireme_ir::Op::new("meshgrid_grad")
        .input("X", view.op.inputs_of("X").iter().cloned())
        .input("outputs@GRAD", douts)
        .output("X@GRAD", dxs);
    Ok(vec![op])
}

/// Reads the list of axis `axis` in the order of the grid.
fn lay(walk: &mut StridedWalk, grid: Dims, axis: usize) {
    walk.start(0);
    for (at, len) in grid.iter().enumerate() {
        walk.axis(*len, isize::from(at == axis));
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, mut outputs) = (op.inputs("X"), op.outputs("Out"));
    let mut walk = StridedWalk::default();
    Ok(Box::new(move |run| {
        let mut lens = [0; MAX_RANK];
        for (len, input) in lens.iter_mut().zip(&inputs) {
            *len = run.tensor(*input)?.numel();
        }
        let grid = sized(&signed(&lens[..inputs.len()]))?;
        for (axis, (input, output)) in inputs.iter().zip(&mut outputs).enumerate() {
            let (x, out) = (run.tensor(*input)?, run.out(output)?);
            out.resize(x.dtype(), grid);
            lay(&mut walk, grid, axis);
            walk.read(x, out);
        }
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, douts) = (op.inputs("X"), op.inputs("outputs@GRAD"));
    let mut dxs = wanted_outputs(op, "X@GRAD");
    if douts.len() != inputs.len() || dxs.len() != inputs.len() {
        return Err(Error::kernel("each of `X` needs its gradients"));
    }
    let mut walk = StridedWalk::default();
    Ok(Box::new(move |run| {
        for (axis, input) in inputs.iter().enumerate() {
            let Some(dx) = &mut dxs[axis] else { continue };
            let (x, dout, dx) = (run.tensor(*input)?, run.tensor(douts[axis])?, run.out(dx)?);
            let grid = dout.dims();
            if grid.get(axis).is_none_or(|len| *len != x.numel()) {
                let problem = format!("{grid} has no axis of {} elements", x.numel());
                return Err(Error::kernel(format!("`outputs@GRAD` {problem}")));
            }
            dx.resize(dout.dtype(), x.dims());
            lay(&mut walk, grid, axis);
            walk.add(dout, dx)?;
        }
        Ok(())
    }))
}
