//! `range`, `linspace`, `eye`, `shape`: tensors of numbers that follow from a few others.

use crate::ops::prelude::*;
use crate::ops::shape::given::{first_number, integer};

pub(super) const RANGE: OpDef = OpDef::new("range", range)
    .inputs(&[Slot::one("Start"), Slot::one("End"), Slot::one("Step")])
    .outputs(&[Slot::one("Out")])
    .infer(|cx: &mut Infer<'_>| {
        let out = Meta::new(cx.input("Start")?.dtype, [-1]);
        cx.set("Out", out);
        Ok(())
    });

pub(super) const LINSPACE: OpDef = OpDef::new("linspace", linspace)
    .inputs(&[Slot::one("Start"), Slot::one("Stop"), Slot::one("Num")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::required("dtype", AttrKind::Int)])
    .infer(|cx: &mut Infer<'_>| {
        let out = Meta::new(cx.op().dtype("dtype")?, [-1]);
        cx.set("Out", out);
        Ok(())
    });

pub(super) const EYE: OpDef = OpDef::new("eye", eye)
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::required("num_rows", AttrKind::Long),
        attr::long("num_columns", -1),
        attr::int("dtype", DType::F32.code()),
    ])
    .infer(|cx: &mut Infer<'_>| {
        let (rows, columns) = eye_shape(cx.op())?;
        let out = Meta::new(cx.op().dtype("dtype")?, [rows, columns]);
        cx.set("Out", out);
        Ok(())
    });

pub(super) const SHAPE: OpDef = OpDef::new("shape", shape)
    .inputs(&[Slot::one("Input")])
    .outputs(&[Slot::one("Out")])
    .infer(|cx: &mut Infer<'_>| {
        let out = Meta::new(DType::I32, [cx.input("Input")?.rank() as i64]);
        cx.set("Out", out);
        Ok(())
    });

fn range(op: &OpView<'_>) -> Result<Kernel> {
    let (start, end, step) = (op.input("Start")?, op.input("End")?, op.input("Step")?);
    let mut out = op.output("Out")?;
    Ok(Box::new(move |run| {
        let dtype = run.tensor(start)?.dtype();
        dispatch!(dtype, T in [i64, i32, f32, f64] => {
            let (start, end, step) = (run.first::<T>(start)?, run.first::<T>(end)?, run.first::<T>(step)?);
            let (from, to, by) = (start.to_f64(), end.to_f64(), step.to_f64());
            // In the element type, as Paddle does, so that both round to the same count.
            let real = T::DTYPE.is_float();
            let ratio = if real { ((end - start) / step).to_f64() } else { (to - from) / by };
            let count = ratio.ceil();
            if !(0.0..1e12).contains(&count) {
                return Err(Error::kernel(format!("cannot go from {from} to {to} by {by}")));
            }
            let out = run.out(&mut out)?;
            out.resize(dtype, [count as usize]);
            // Added up step by step in the element type, as Paddle does.
            let mut value = start;
            for (i, out) in out.as_mut_slice::<T>()?.iter_mut().enumerate() {
                if i > 0 {
                    value = value.plus(step);
                }
                *out = value;
            }
            Ok(())
        }, else => Err(Error::kernel(format!("no range of {dtype} elements"))))
    }))
}

fn linspace(op: &OpView<'_>) -> Result<Kernel> {
    let (start, stop, num) = (op.input("Start")?, op.input("Stop")?, op.input("Num")?);
    let (dtype, mut out) = (op.dtype("dtype")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let ends = first_number(run.tensor(start)?).zip(first_number(run.tensor(stop)?));
        let (from, to) = ends.ok_or_else(|| Error::kernel("`Start` or `Stop` is empty"))?;
        let count = integer(run.tensor(num)?)?;
        let count = usize::try_from(count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| Error::kernel(format!("`Num` must be positive, not {count}")))?;
        let step = if count > 1 { (to - from) / (count - 1) as f64 } else { 0.0 };
        let out = run.out(&mut out)?;
        out.resize(dtype, [count]);
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            for (i, out) in out.as_mut_slice::<T>()?.iter_mut().enumerate() {
                // From the nearer end, so that both ends are exact.
                let near = i < count / 2 || count == 1;
                let value =
                    if near { from + step * i as f64 } else { to - step * (count - 1 - i) as f64 };
                *out = T::from_f64(value);
            }
            Ok(())
        }, else => Err(Error::kernel(format!("no linspace of {dtype} elements"))))
    }))
}

fn eye_shape(op: &OpView<'_>) -> Result<(i64, i64)> {
    let (rows, columns) = (op.i64("num_rows")?, op.i64("num_columns")?);
    let columns = if columns == -1 { rows } else { columns };
    if rows < 0 || columns < 0 {
        return Err(Error::kernel(format!("no identity matrix of {rows} by {columns}")));
    }
    Ok((rows, columns))
}

fn eye(op: &OpView<'_>) -> Result<Kernel> {
    let (mut out, (rows, columns), dtype) = (op.output("Out")?, eye_shape(op)?, op.dtype("dtype")?);
    Ok(Box::new(move |run| {
        let out = run.out(&mut out)?;
        out.resize(dtype, [rows as usize, columns as usize]);
        out.as_mut_bytes().fill(0);
        dispatch!(dtype, T in [f32, f64, i32, i64, u8, i8, i16, f16, bf16] => {
            let one = T::from_f64(1.0);
            let diagonal = out.as_mut_slice::<T>()?.iter_mut().step_by(columns as usize + 1);
            diagonal.take(rows.min(columns) as usize).for_each(|out| *out = one);
            Ok(())
        }, else => unreachable!("every element type is listed"))
    }))
}

fn shape(op: &OpView<'_>) -> Result<Kernel> {
    let (input, mut out) = (op.input("Input")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let dims = match run.value(input) {
            crate::Value::Tensor(tensor) => tensor.dims(),
            crate::Value::Rows(rows) => rows.value.dims().with_rows(rows.height),
        };
        let out = run.out(&mut out)?;
        out.resize(DType::I32, [dims.len()]);
        for (out, dim) in out.as_mut_slice::<i32>()?.iter_mut().zip(dims.iter()) {
            *out = i32::try_from(*dim)
                .map_err(|_| Error::kernel(format!("dimension {dim} does not fit int32")))?;
        }
        Ok(())
    }))
}
