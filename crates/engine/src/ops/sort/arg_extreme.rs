//! `arg_max` and `arg_min`: where the largest or smallest element lies; the first one of equals.

use super::lanes::{Lanes, axis_of};
use crate::ops::prelude::*;

pub(super) const MAX: OpDef = definition("arg_max", |op| kernel(op, true));
pub(super) const MIN: OpDef = definition("arg_min", |op| kernel(op, false));

const fn definition(name: &'static str, kernel: fn(&OpView<'_>) -> Result<Kernel>) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("X")] })
        .outputs(const { &[Slot::one("Out")] })
        .attrs(
            const {
                &[
                    attr::required("axis", AttrKind::Long),
                    attr::bool("keepdims", false),
                    attr::bool("flatten", false),
                    attr::int("dtype", DType::I64.code()),
                ]
            },
        )
        .infer(infer)
        .split(SplitRule::Fn(split))
}

/// The dimensions of `Out`.
fn shape(op: &OpView<'_>, x: &[i64]) -> Result<Vec<i64>> {
    let (flatten, keep) = (op.bool("flatten")?, op.bool("keepdims")?);
    if flatten || x.is_empty() {
        return Ok(vec![1; if keep { x.len() } else { 0 }]);
    }
    let axis = axis_of(op.i64("axis")?, x.len())?;
    let mut dims = x.to_vec();
    if keep {
        dims[axis] = 1;
    } else {
        dims.remove(axis);
    }
    Ok(dims)
}

/// The element type of `Out`; Paddle's -1 means int64.
fn dtype(op: &OpView<'_>) -> Result<DType> {
    match op.i64("dtype")? {
        -1 => Ok(DType::I64),
        _ => op.dtype("dtype"),
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let dims = shape(cx.op(), &cx.input("X")?.dims)?;
    let out = Meta::new(dtype(cx.op())?, dims);
    cx.set("Out", out);
    Ok(())
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let axis = axis_of(view.op.i64("axis").ok()?, view.meta("X")?.rank()).ok()?;
    let inside = axis > 0 && !view.op.bool("flatten").ok()?;
    if inside { SplitRule::RowWise.apply(view) } else { None }
}

fn kernel(op: &OpView<'_>, largest: bool) -> Result<Kernel> {
    let (x, mut out, dtype) = (op.input("X")?, op.output("Out")?, dtype(op)?);
    let (axis, keep) = (op.i64("axis")?, op.bool("keepdims")?);
    let flatten = op.bool("flatten")?;
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let rank = x.dims().len();
        let all = flatten || rank == 0;
        let axis = if all { 0 } else { axis_of(axis, rank)? };
        out.resize(dtype, reduced(x.dims(), if all { None } else { Some(axis) }, keep));
        let lanes = if all {
            Lanes { outer: 1, len: x.numel(), inner: 1 }
        } else {
            Lanes::new(x.dims(), axis)
        };
        if lanes.len == 0 {
            return Err(Error::kernel(format!("`X` {} has no elements to compare", x.dims())));
        }
        dispatch!(dtype, I in [i64, i32] => write::<I>(x, lanes, largest, out.as_mut_slice()?),
            else => Err(Error::kernel(format!("indices are int32 or int64, not {dtype}"))))
    }))
}

/// The dimensions without `axis`, or without any.
fn reduced(dims: Dims, axis: Option<usize>, keep: bool) -> Dims {
    let mut all = [1; MAX_RANK];
    let Some(axis) = axis else { return Dims::new(&all[..if keep { dims.len() } else { 0 }]) };
    all[..dims.len()].copy_from_slice(&dims);
    if keep {
        all[axis] = 1;
        return Dims::new(&all[..dims.len()]);
    }
    all.copy_within(axis + 1.., axis);
    Dims::new(&all[..dims.len() - 1])
}

fn write<I: Element>(x: &Tensor, lanes: Lanes, largest: bool, out: &mut [I]) -> Result<()> {
    dispatch!(x.dtype(), T in [f32, f64, i32, i64, u8, i16] => {
        let x = x.as_slice::<T>()?;
        for (out, start) in out.iter_mut().zip(lanes.starts(lanes.len)) {
            let mut best = (0, x[start]);
            for i in 1..lanes.len {
                let value = x[start + i * lanes.inner];
                if if largest { value > best.1 } else { value < best.1 } {
                    best = (i, value);
                }
            }
            *out = I::from_f64(best.0 as f64);
        }
        Ok(())
    }, else => Err(Error::kernel(format!("cannot order {} elements", x.dtype()))))
}
