//! `tensor_array_to_tensor`: the items of a tensor array as one tensor, one after the other or stacked.

use std::sync::Arc;

use bireme_ir::VarKind;

use super::{items, list};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("tensor_array_to_tensor", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out"), Slot::maybe("OutIndex")])
    .attrs(&[attr::int("axis", 0), attr::bool("use_stack", false)])
    .infer(infer)
    .any_width()
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X"]));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let item = items(cx.input("X")?)?;
    let mut dims = item.dims.clone();
    if cx.op().bool("use_stack")? {
        let at = axis(cx.op().i64("axis")?, dims.len() + 1)?;
        dims.insert(at, -1);
    } else {
        let at = axis(cx.op().i64("axis")?, dims.len())?;
        dims[at] = -1;
    }
    cx.set("Out", Meta { lod_level: 0, ..item.with_dims(dims) });
    cx.set("OutIndex", Meta::new(DType::I32, [-1]));
    Ok(())
}

/// The axis that a number, counted from the end when negative, names among `rank`.
fn axis(axis: i64, rank: usize) -> Result<usize> {
    let at = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(at).ok().filter(|at| *at < rank).ok_or_else(|| {
        Error::kernel(format!("`axis` {axis} lies outside a result of {rank} dimensions"))
    })
}

/// How items lie in the result: runs of consecutive bytes of each item, item after item, as often as `outer` says.
struct Walk {
    dims: Vec<usize>,
    outer: usize,
    /// Bytes of each item's runs, and its size along the axis.
    runs: Vec<(usize, usize)>,
}

impl Walk {
    fn new(op: (i64, bool), items: &[&Tensor]) -> Result<Walk> {
        let (number, stacks) = op;
        let first = *items.first().ok_or_else(|| Error::kernel("the array has no items"))?;
        let mut dims = first.dims().to_vec();
        let at = axis(number, dims.len() + usize::from(stacks))?;
        if stacks {
            dims.insert(at, items.len());
        }
        let outer: usize = dims[..at].iter().product();
        let mut runs = Vec::with_capacity(items.len());
        for item in items {
            let others = item.dims();
            let same =
                |(axis, (a, b)): (usize, (&usize, &usize))| a == b || (axis == at && !stacks);
            let alike = others.len() == first.dims().len()
                && others.iter().zip(first.dims().iter()).enumerate().all(same);
            if !alike || item.dtype() != first.dtype() {
                return Err(Error::kernel(format!(
                    "items of shape {} and {} do not fit together",
                    first.dims(),
                    others
                )));
            }
            let size = if stacks { 1 } else { others[at] };
            runs.push((item.as_bytes().len() / outer.max(1), size));
        }
        if !stacks {
            dims[at] = runs.iter().map(|(_, size)| size).sum();
        }
        Ok(Walk { dims, outer, runs })
    }

    /// Calls `each` with item, its range and the range of the result, run by run.
    fn each(&self, mut each: impl FnMut(usize, std::ops::Range<usize>, std::ops::Range<usize>)) {
        let mut at = 0;
        for outer in 0..self.outer {
            for (item, (bytes, _)) in self.runs.iter().enumerate() {
                each(item, outer * bytes..(outer + 1) * bytes, at..at + bytes);
                at += bytes;
            }
        }
    }
}

fn tensors(list: &List) -> Result<Vec<&Tensor>> {
    (0..list.items.len()).map(|at| list.get(at)?.tensor()).collect()
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, mut sizes) = (op.input("X")?, op.output("Out")?, op.maybe_output("OutIndex"));
    let how = (op.i64("axis")?, op.bool("use_stack")?);
    Ok(Box::new(move |run| {
        let items = tensors(list(run, x)?)?;
        let walk = Walk::new(how, &items)?;
        let out = run.out(&mut out)?;
        out.resize(items[0].dtype(), Dims::new(&walk.dims));
        let bytes = out.as_mut_bytes();
        walk.each(|item, from, to| bytes[to].copy_from_slice(&items[item].as_bytes()[from]));
        if let Some(sizes) = &mut sizes {
            let sizes = run.out(sizes)?;
            sizes.resize(DType::I32, [walk.runs.len()]);
            for (size, (_, run)) in sizes.as_mut_slice::<i32>()?.iter_mut().zip(&walk.runs) {
                *size = *run as i32;
            }
        }
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, given, mut out) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let how = (op.i64("axis")?, op.bool("use_stack")?);
    Ok(Box::new(move |run| {
        let items = tensors(list(run, x)?)?;
        let walk = Walk::new(how, &items)?;
        let given = run.tensor(given)?.as_bytes();
        let mut grads: Vec<Tensor> =
            items.iter().map(|item| Tensor::zeros(item.dtype(), item.dims())).collect();
        walk.each(|item, to, from| grads[item].as_mut_bytes()[to].copy_from_slice(&given[from]));
        let items = grads.into_iter().map(|grad| Some(Arc::new(grad.into()))).collect();
        let list = List { kind: VarKind::LodTensorArray, items };
        *run.out(&mut out)? = Tensor::of_list(run.tensor(x)?.dtype(), list);
        Ok(())
    }))
}
