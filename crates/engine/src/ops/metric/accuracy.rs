//! `accuracy`: the share of samples whose label is among their top-k classes (`Indices`).

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("accuracy", kernel)
    .inputs(&[Slot::one("Out"), Slot::one("Indices"), Slot::one("Label")])
    .outputs(&[Slot::one("Accuracy"), Slot::one("Correct"), Slot::one("Total")])
    .infer(infer);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let dtype = cx.input("Out")?.dtype;
    cx.set("Accuracy", Meta::new(dtype, []));
    cx.set("Correct", Meta::new(DType::I32, []));
    cx.set("Total", Meta::new(DType::I32, []));
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (indices, label) = (op.input("Indices")?, op.input("Label")?);
    let [mut accuracy, mut correct, mut total] =
        [op.output("Accuracy")?, op.output("Correct")?, op.output("Total")?];
    Ok(Box::new(move |run| {
        let (indices, label) = (run.tensor(indices)?, run.tensor(label)?);
        let samples = indices.rows();
        if label.numel() != samples {
            return Err(Error::kernel(format!(
                "`Label` has {} entries, but `Indices` has {samples} rows",
                label.numel()
            )));
        }
        let hits = match label.dtype() {
            DType::I64 => hits(indices, label.as_slice::<i64>()?)?,
            DType::I32 => hits(indices, label.as_slice::<i32>()?)?,
            other => {
                return Err(Error::kernel(format!("labels are int64 or int32, not {other}")));
            }
        };
        run.set::<i32>(&mut correct)?[0] = hits as i32;
        run.set::<i32>(&mut total)?[0] = samples as i32;
        let share = hits as f64 / samples.max(1) as f64;
        let accuracy = run.out(&mut accuracy)?;
        dispatch!(accuracy.dtype(), T in [f32, f64] => {
            accuracy.as_mut_slice::<T>()?[0] = share as T;
            Ok(())
        }, else => Err(not_float("Out", accuracy.dtype())))
    }))
}

/// How many rows of `indices` contain their label.
fn hits<L: Copy + Into<i64>>(indices: &Tensor, labels: &[L]) -> Result<usize> {
    let width = indices.numel().checked_div(indices.rows()).unwrap_or(1).max(1);
    match indices.dtype() {
        DType::I64 => Ok(matches(indices.as_slice::<i64>()?, width, labels)),
        DType::I32 => Ok(matches(indices.as_slice::<i32>()?, width, labels)),
        other => Err(Error::kernel(format!("indices are int64 or int32, not {other}"))),
    }
}

fn matches<I: Copy + Into<i64>, L: Copy + Into<i64>>(
    indices: &[I],
    width: usize,
    labels: &[L],
) -> usize {
    let rows = indices.chunks_exact(width).zip(labels);
    rows.filter(|(row, label)| row.iter().any(|index| (*index).into() == (**label).into())).count()
}
