//! `where`: elements of one tensor or another, as a condition says; `where_index`: the places
//! where a condition holds.

use crate::ops::prelude::*;

pub(super) const WHERE: OpDef = OpDef::new("where", kernel)
    .inputs(&[Slot::one("Condition"), Slot::one("X"), Slot::one("Y")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::RowWise)
    .gradient(
        Gradient::new(&["X", "Y"], grad_kernel)
            .reads(&["Condition", "X", "Y"])
            .second(second::linear),
    );

pub(super) const WHERE_INDEX: OpDef = OpDef::new("where_index", index_kernel)
    .inputs(&[Slot::one("Condition")])
    .outputs(&[Slot::one("Out")])
    .infer(|cx: &mut Infer<'_>| {
        let out = Meta::new(DType::I64, [-1, cx.input("Condition")?.rank() as i64]);
        cx.set("Out", out);
        Ok(())
    });

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, y, condition) = (cx.input("X")?, cx.input("Y")?, cx.input("Condition")?);
    let same = |a: &[i64], b: &[i64]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_dim(*a, *b).is_ok())
    };
    if !same(&x.dims, &y.dims) || !same(&x.dims, &condition.dims) || x.dtype != y.dtype {
        return Err(Error::kernel(format!(
            "`Condition` {:?}, `X` {:?} and `Y` {:?} must have one shape and type",
            condition.dims, x.dims, y.dims
        )));
    }
    cx.set("Out", x.clone());
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (condition, x, y) = (op.input("Condition")?, op.input("X")?, op.input("Y")?);
    let mut out = op.output("Out")?;
    Ok(Box::new(move |run| {
        let (x, y, out) = (run.tensor(x)?, run.tensor(y)?, run.out(&mut out)?);
        let condition = run.get::<u8>(condition)?;
        if x.dims() != y.dims() || x.numel() != condition.len() {
            return Err(Error::kernel(format!("`X` {} and `Y` {} differ", x.dims(), y.dims())));
        }
        out.resize(x.dtype(), x.dims());
        dispatch!(x.dtype(), T in [f32, f64, i32, i64, u8, i8, i16, f16, bf16] => {
            let sides = x.as_slice::<T>()?.iter().zip(y.as_slice::<T>()?).zip(condition);
            for (out, ((x, y), holds)) in out.as_mut_slice::<T>()?.iter_mut().zip(sides) {
                *out = if *holds != 0 { *x } else { *y };
            }
            Ok(())
        }, else => unreachable!("every element type is listed"))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (condition, dout) = (op.input("Condition")?, op.input("Out@GRAD")?);
    let (mut dx, mut dy) = (op.maybe_output("X@GRAD"), op.maybe_output("Y@GRAD"));
    Ok(Box::new(move |run| {
        let (condition, dout) = (run.get::<u8>(condition)?, run.tensor(dout)?);
        for (out, side) in [(&mut dx, true), (&mut dy, false)] {
            if let Some(out) = out {
                let out = run.out(out)?;
                out.resize(dout.dtype(), dout.dims());
                keep(out, dout, condition, side)?;
            }
        }
        Ok(())
    }))
}

/// The gradient where the condition is `side`, 0 elsewhere.
fn keep(out: &mut Tensor, dout: &Tensor, condition: &[u8], side: bool) -> Result<()> {
    dispatch!(dout.dtype(), T in [f32, f64, i32, i64, f16, bf16] => {
        let from = dout.as_slice::<T>()?.iter().zip(condition);
        for (out, (dout, holds)) in out.as_mut_slice::<T>()?.iter_mut().zip(from) {
            *out = if (*holds != 0) == side { *dout } else { T::default() };
        }
        Ok(())
    }, else => Err(Error::kernel(format!("no gradient of {} elements", dout.dtype()))))
}

fn index_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (condition, mut out) = (op.input("Condition")?, op.output("Out")?);
    let mut found: Vec<usize> = Vec::new();
    Ok(Box::new(move |run| {
        let (condition, out) = (run.tensor(condition)?, run.out(&mut out)?);
        found.clear();
        dispatch!(condition.dtype(), T in [u8, f32, f64, i32, i64, i8, i16, f16, bf16] => {
            let values = condition.as_slice::<T>()?.iter().enumerate();
            found.extend(values.filter(|(_, value)| **value != T::default()).map(|(at, _)| at));
        }, else => unreachable!("every element type is listed"));
        let (dims, strides) = (condition.dims(), condition.dims().strides());
        out.resize(DType::I64, [found.len(), dims.len()]);
        if dims.is_empty() {
            return Ok(());
        }
        for (out, at) in out.as_mut_slice::<i64>()?.chunks_exact_mut(dims.len()).zip(&found) {
            for (out, (dim, stride)) in out.iter_mut().zip(dims.iter().zip(strides.iter())) {
                *out = (at / stride % dim) as i64;
            }
        }
        Ok(())
    }))
}
