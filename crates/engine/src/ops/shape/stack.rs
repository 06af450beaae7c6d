//! `stack`: tensors of one shape along a new axis; `unstack` and `unbind`: the way back.

use bireme_ir::{Op, grad_name};

use super::blocks;
use super::concat::wanted_outputs;
use super::dims::{axis_in, ranked};
use crate::ops::prelude::*;

pub(super) const STACK: OpDef =
    OpDef::new("stack", |op| join(op.inputs("X"), op.output("Y")?, op.i64("axis")?))
        .inputs(&[Slot::many("X")])
        .outputs(&[Slot::one("Y")])
        .attrs(&[attr::int("axis", 0)])
        .infer(|cx| infer_join(cx, "X", "Y"))
        .split(SplitRule::Fn(|view| split_inside(view, view.meta("X")?.rank() + 1)))
        .gradient(
            Gradient::new(&["X"], |op| {
                cut(op.input("Y@GRAD")?, wanted_outputs(op, "X@GRAD"), op.i64("axis")?)
            })
            .reads(&["X"])
            .optional(&["X"])
            .second(second::linear)
            .infer(|cx| infer_cut(cx, "Y@GRAD", "X@GRAD"))
            .split(SplitRule::Fn(|view| split_inside(view, view.meta("Y@GRAD")?.rank()))),
        );

pub(super) const UNSTACK: OpDef =
    OpDef::new("unstack", |op| cut(op.input("X")?, all(op.outputs("Y")), op.i64("axis")?))
        .inputs(&[Slot::one("X")])
        .outputs(&[Slot::many("Y")])
        .attrs(&[attr::int("axis", 0), attr::int("num", 0)])
        .infer(|cx| infer_cut(cx, "X", "Y"))
        .split(SplitRule::Fn(|view| split_inside(view, view.meta("X")?.rank())))
        .gradient(
            Gradient::new(&["X"], |op| {
                join(op.inputs("Y@GRAD"), op.output("X@GRAD")?, op.i64("axis")?)
            })
            .infer(|cx| infer_join(cx, "Y@GRAD", "X@GRAD"))
            .split(SplitRule::Fn(|view| split_inside(view, view.meta("Y@GRAD")?.rank() + 1))),
        );

pub(super) const UNBIND: OpDef =
    OpDef::new("unbind", |op| cut(op.input("X")?, all(op.outputs("Out")), op.i64("axis")?))
        .inputs(&[Slot::one("X")])
        .outputs(&[Slot::many("Out")])
        .attrs(&[attr::int("axis", 0)])
        .infer(|cx| infer_cut(cx, "X", "Out"))
        .grad(GradRule::Fn(unbind_grad))
        .split(SplitRule::Fn(|view| split_inside(view, view.meta("X")?.rank())));

fn unbind_grad(view: &OpView<'_>) -> Result<Vec<Op>> {
    let op = Op::new("stack")
        .input("X", view.op.outputs_of("Out").iter().map(|out| grad_name(out)))
        .output("Y", view.op.inputs_of("X").iter().map(|x| grad_name(x)))
        .attr("axis", view.attr("axis")?);
    Ok(vec![op])
}

fn all(outputs: Vec<Out>) -> Vec<Option<Out>> {
    outputs.into_iter().map(Some).collect()
}

/// Row by row, unless the axis, in the stacked tensor of `rank` dimensions, is the batch itself.
fn split_inside(view: &SplitView<'_>, rank: usize) -> Option<Vec<Spread>> {
    let axis = axis_in(view.op.i64("axis").ok()?, rank).ok()?;
    if axis == 0 { None } else { SplitRule::RowWise.apply(view) }
}

fn infer_join(cx: &mut Infer<'_>, from: &str, to: &str) -> Result<()> {
    let inputs = cx.inputs(from);
    let first = *inputs.first().ok_or_else(|| Error::kernel(format!("`{from}` is empty")))?;
    let mut dims = first.dims.clone();
    for input in &inputs[1..] {
        let fits = input.rank() == first.rank() && input.dtype == first.dtype;
        let merged: Result<Vec<i64>> =
            dims.iter().zip(&input.dims).map(|(a, b)| same_dim(*a, *b)).collect();
        match merged {
            Ok(merged) if fits => dims = merged,
            _ => {
                let shapes = format!("{:?} and {:?}", first.dims, input.dims);
                return Err(Error::kernel(format!("cannot stack shapes {shapes}")));
            }
        }
    }
    let axis = axis_in(cx.op().i64("axis")?, dims.len() + 1)?;
    dims.insert(axis, inputs.len() as i64);
    let mut out = first.with_dims(ranked(dims)?);
    out.lod_level = 0;
    cx.set(to, out);
    Ok(())
}

fn infer_cut(cx: &mut Infer<'_>, from: &str, to: &str) -> Result<()> {
    let x = cx.input(from)?;
    let axis = axis_in(cx.op().i64("axis")?, x.rank())?;
    let count = cx.op().op.outputs_of(to).len() as i64;
    same_dim(x.dims[axis], count).map_err(|_| {
        Error::kernel(format!(
            "axis {axis} of {:?} gives {} parts, not {count}",
            x.dims, x.dims[axis]
        ))
    })?;
    let mut part = x.clone();
    part.dims.remove(axis);
    part.lod_level = 0;
    cx.set(to, part);
    Ok(())
}

fn join(inputs: Vec<In>, mut out: Out, axis: i64) -> Result<Kernel> {
    if inputs.is_empty() {
        return Err(Error::kernel("there is nothing to stack"));
    }
    Ok(Box::new(move |run| {
        let first = run.tensor(inputs[0])?;
        let (dims, rank) = (first.dims(), first.dims().len());
        let axis = axis_in(axis, rank + 1)?;
        if rank == MAX_RANK {
            return Err(Error::kernel(format!("cannot stack tensors of {rank} dimensions")));
        }
        let mut joined = [0; MAX_RANK];
        joined[..axis].copy_from_slice(&dims[..axis]);
        joined[axis] = inputs.len();
        joined[axis + 1..=rank].copy_from_slice(&dims[axis..]);
        let out = run.out(&mut out)?;
        out.resize(first.dtype(), Dims::new(&joined[..=rank]));
        let width = dims.tail(axis) * first.dtype().size();
        for (position, input) in inputs.iter().enumerate() {
            let input = run.tensor(*input)?;
            if input.dims() != dims || input.dtype() != first.dtype() {
                let shapes = format!("{dims} and {}", input.dims());
                return Err(Error::kernel(format!("cannot stack shapes {shapes}")));
            }
            let row = width * inputs.len();
            blocks::put(out.as_mut_bytes(), row, position * width, input.as_bytes(), width);
        }
        Ok(())
    }))
}

fn cut(x: In, mut outputs: Vec<Option<Out>>, axis: i64) -> Result<Kernel> {
    Ok(Box::new(move |run| {
        let x = run.tensor(x)?;
        let (dims, rank) = (x.dims(), x.dims().len());
        let axis = axis_in(axis, rank)?;
        if dims[axis] != outputs.len() {
            let problem = format!("axis {axis} of {dims} does not give {} parts", outputs.len());
            return Err(Error::kernel(problem));
        }
        let mut part = [0; MAX_RANK];
        part[..axis].copy_from_slice(&dims[..axis]);
        part[axis..rank - 1].copy_from_slice(&dims[axis + 1..]);
        let width = dims.tail(axis + 1) * x.dtype().size();
        let row = width * outputs.len();
        for (position, out) in outputs.iter_mut().enumerate() {
            if let Some(out) = out {
                let out = run.out(out)?;
                out.resize(x.dtype(), Dims::new(&part[..rank - 1]));
                blocks::take(x.as_bytes(), row, position * width, out.as_mut_bytes(), width);
            }
        }
        Ok(())
    }))
}
