//! `sum`: adds any number of tensors; how gradients that reach a variable on several ways meet.
//!
//! Selected rows are concatenated when there is nothing else (whoever uses them adds equal ones
//! up), and added into the dense sum when there is.

use std::sync::Arc;

use bireme_ir::{Op, VarKind};

use crate::op::join;
use crate::ops::prelude::*;
use crate::tensor::not_a_list;

pub(super) const DEF: OpDef = OpDef::new("sum", kernel)
    .inputs(&[Slot::many("X")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .lod_from("X")
    .grad(GradRule::Fn(grad))
    .split(SplitRule::Fn(split));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let inputs = cx.inputs("X");
    let first = *inputs.first().ok_or_else(|| Error::kernel("input slot `X` is empty"))?;
    if first.kind == VarKind::LodTensorArray {
        let all = inputs.iter().try_fold(first.clone(), |all, one| join(&all, one))?;
        cx.set("Out", all);
        return Ok(());
    }
    let dense = inputs.iter().find(|meta| meta.kind == VarKind::LodTensor);
    let mut out = dense.map_or_else(|| first.clone(), |dense| (*dense).clone());
    for meta in &inputs {
        out.dims = meet(&out, meta)?;
    }
    cx.set("Out", out);
    Ok(())
}

fn meet(a: &Meta, b: &Meta) -> Result<Vec<i64>> {
    let dims = a.dims.iter().zip(&b.dims).map(|(a, b)| same_dim(*a, *b).ok());
    match dims.collect::<Option<Vec<_>>>() {
        Some(dims) if a.rank() == b.rank() && a.dtype == b.dtype => Ok(dims),
        _ => Err(Error::kernel(format!(
            "cannot add {} {:?} and {} {:?}",
            a.dtype, a.dims, b.dtype, b.dims
        ))),
    }
}

/// Each input's gradient is the output's, written as Paddle writes it: a scale by 1.
fn grad(view: &OpView<'_>) -> Result<Vec<Op>> {
    let dout: Vec<_> = view.op.outputs_of("Out").iter().map(|v| bireme_ir::grad_name(v)).collect();
    let scale = |x: &String| {
        Op::new("scale")
            .input("X", dout.clone())
            .output("Out", [bireme_ir::grad_name(x)])
            .attr("scale", 1.0f32)
    };
    Ok(view.op.inputs_of("X").iter().map(scale).collect())
}

/// A sum of rows is rows of the sum; a sum of pieces is a piece of the sum.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let dense = view.inputs.iter().all(|meta| meta.kind == VarKind::LodTensor);
    let spread = *view.spreads.first()?;
    let alike = view.spreads.iter().all(|other| *other == spread) && spread != Spread::Whole;
    (dense && alike).then(|| vec![spread])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, mut out) = (op.inputs("X"), op.output("Out")?);
    Ok(Box::new(move |run| {
        if run.value(inputs[0]).tensor().is_ok_and(|first| first.list().is_some()) {
            return add_lists(run, &inputs, run.out(&mut out)?);
        }
        if inputs.iter().all(|input| run.value(*input).rows().is_some()) {
            let rows = inputs.iter().filter_map(|input| run.value(*input).rows());
            let first = run.value(inputs[0]).rows().ok_or(Error::NotDense)?;
            concatenate(first, rows, run.out_rows(&mut out, first.value.dtype()))
        } else {
            add_dense(run, &inputs, run.out(&mut out)?)
        }
    }))
}

/// Adds arrays item by item; where only one has an item, it is the sum.
fn add_lists(run: &Run<'_>, inputs: &[In], out: &mut Tensor) -> Result<()> {
    let mut sum = run.tensor(inputs[0])?.clone();
    for input in &inputs[1..] {
        let more = run.tensor(*input)?.list().ok_or_else(not_a_list)?;
        for (at, item) in more.items.iter().enumerate() {
            let Some(item) = item else { continue };
            let list = sum.list_mut()?;
            let added = match list.items.get(at).and_then(Option::as_deref) {
                None => Arc::clone(item),
                Some(known) => Arc::new(added(known.tensor()?, item.tensor()?)?.into()),
            };
            list.set(at, added);
        }
    }
    out.copy_from(&sum);
    Ok(())
}

fn added(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let mut sum = a.clone();
    if a.dims() != b.dims() || a.dtype() != b.dtype() {
        return Err(Error::kernel(format!("cannot add items {} and {}", a.dims(), b.dims())));
    }
    dispatch!(a.dtype(), T in [f32, f64, i32, i64] => {
        add_to::<T>(sum.as_mut_slice()?, b.as_slice()?)
    }, else => Err(Error::kernel(format!("cannot add {} elements", a.dtype()))))?;
    Ok(sum)
}

fn concatenate<'a>(
    first: &SelectedRows,
    all: impl Iterator<Item = &'a SelectedRows> + Clone,
    out: &mut SelectedRows,
) -> Result<()> {
    let count = all.clone().map(|rows| rows.rows.len()).sum();
    out.height = first.height;
    out.rows.clear();
    out.value.resize(first.value.dtype(), first.value.dims().with_rows(count));
    let bytes = out.value.as_mut_bytes();
    let mut at = 0;
    for rows in all {
        let source = rows.value.as_bytes();
        let target = bytes.get_mut(at..at + source.len()).ok_or_else(|| {
            Error::kernel(format!("rows of {} and {} elements differ", first.width(), rows.width()))
        })?;
        target.copy_from_slice(source);
        at += source.len();
        out.rows.extend_from_slice(&rows.rows);
    }
    Ok(())
}

fn add_dense(run: &Run<'_>, inputs: &[In], out: &mut Tensor) -> Result<()> {
    let dtype = out.dtype();
    dispatch!(dtype, T in [f32, f64, i32, i64] => {
        let out = out.as_mut_slice::<T>()?;
        let tensors = || inputs.iter().filter_map(|input| run.value(*input).tensor().ok());
        // The first two are added in one pass, so that the usual sum of two reads nothing twice.
        let mut rest = tensors();
        match (rest.next(), rest.next()) {
            (Some(a), Some(b)) => add::<T>(out, a.as_slice()?, b.as_slice()?)?,
            (Some(a), None) => copy::<T>(out, a.as_slice()?)?,
            _ => out.fill(T::ZERO),
        }
        for tensor in rest {
            add_to::<T>(out, tensor.as_slice()?)?;
        }
        for rows in inputs.iter().filter_map(|input| run.value(*input).rows()) {
            scatter::<T>(out, rows)?;
        }
        Ok(())
    }, else => Err(Error::kernel(format!("cannot add {dtype} elements"))))
}

fn same_len(out: usize, x: usize) -> Result<()> {
    if out == x { Ok(()) } else { Err(Error::kernel(format!("cannot add {x} elements to {out}"))) }
}

fn copy<T: Number>(out: &mut [T], x: &[T]) -> Result<()> {
    same_len(out.len(), x.len())?;
    out.copy_from_slice(x);
    Ok(())
}

fn add<T: Number>(out: &mut [T], a: &[T], b: &[T]) -> Result<()> {
    same_len(out.len(), a.len())?;
    same_len(out.len(), b.len())?;
    vectorized(
        #[inline(always)]
        || out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = a.plus(*b)),
    );
    Ok(())
}

fn add_to<T: Number>(out: &mut [T], x: &[T]) -> Result<()> {
    same_len(out.len(), x.len())?;
    vectorized(
        #[inline(always)]
        || out.iter_mut().zip(x).for_each(|(out, x)| *out = out.plus(*x)),
    );
    Ok(())
}

fn scatter<T: Number>(out: &mut [T], rows: &SelectedRows) -> Result<()> {
    let width = rows.width();
    let values = rows.value.as_slice::<T>()?;
    for (row, values) in rows.rows.iter().zip(values.chunks_exact(width.max(1))) {
        let start = usize::try_from(*row).ok().map(|row| row * width);
        let target =
            start.and_then(|start| out.get_mut(start..start + width)).ok_or_else(|| {
                Error::kernel(format!("row {row} lies outside a tensor of {} rows", rows.height))
            })?;
        add_to(target, values)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::*;

    fn rows(rows: &[i64], values: &[f32]) -> Value {
        let value = Tensor::from_slice([rows.len(), 1], values).unwrap();
        Value::Rows(SelectedRows { rows: rows.to_vec(), height: 4, value })
    }

    fn sum(inputs: Vec<Value>) -> Result<Value> {
        let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
        let mut values: HashMap<_, _> = names.iter().cloned().zip(inputs).collect();
        run_once(&Op::new("sum").input("X", names).output("Out", ["out"]), &mut values)?;
        Ok(values.remove("out").unwrap())
    }

    #[test]
    fn rows_are_concatenated() {
        let out = sum(vec![rows(&[3], &[1.0]), rows(&[0, 3], &[2.0, 3.0])]).unwrap();
        assert_eq!(out, rows(&[3, 0, 3], &[1.0, 2.0, 3.0]));
    }

    #[test]
    fn rows_join_a_dense_sum() {
        let dense = Tensor::from_slice([4, 1], &[1.0f32; 4]).unwrap();
        let out = sum(vec![rows(&[3, 3], &[1.0, 2.0]), dense.into()]).unwrap();
        assert_eq!(out.tensor().unwrap().as_slice::<f32>().unwrap(), [1.0, 1.0, 1.0, 4.0]);
    }

    #[test]
    fn a_row_outside_is_an_error() {
        let dense = Tensor::from_slice([4, 1], &[1.0f32; 4]).unwrap();
        let message = sum(vec![rows(&[4], &[1.0]), dense.into()]).unwrap_err().to_string();
        assert_eq!(message, "op `sum` (`out`): row 4 lies outside a tensor of 4 rows");
    }
}
