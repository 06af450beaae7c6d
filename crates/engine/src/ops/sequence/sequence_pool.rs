//! `sequence_pool`: one row for each sequence: the sum, mean, maximum, first or last of its rows.

use bireme_ir::Op;

use super::offsets::{innermost, ranges};
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::bool("is_test", false),
    attr::str("pooltype", "AVERAGE"),
    attr::float("pad_value", 0.0),
];

pub(super) const DEF: OpDef = OpDef::new("sequence_pool", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out"), Slot::maybe("MaxIndex")])
    .attrs(ATTRS)
    .infer(infer)
    .grad(GradRule::Fn(grad));

pub(super) const GRAD: OpDef = OpDef::new("sequence_pool_grad", grad_kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("MaxIndex"), Slot::one("Out@GRAD")])
    .outputs(&[Slot::one("X@GRAD")])
    .attrs(ATTRS)
    .like(&[("X@GRAD", "X")])
    .lod_from("X");

/// How the rows of a sequence become one.
#[derive(Clone, Copy, PartialEq)]
enum Pool {
    Sum,
    Average,
    Sqrt,
    Max,
    First,
    Last,
}

impl Pool {
    fn of(op: &OpView<'_>) -> Result<Pool> {
        Ok(match op.string("pooltype")?.to_ascii_uppercase().as_str() {
            "SUM" => Pool::Sum,
            "AVERAGE" => Pool::Average,
            "SQRT" => Pool::Sqrt,
            "MAX" => Pool::Max,
            "FIRST" => Pool::First,
            "LAST" => Pool::Last,
            other => {
                return Err(Error::kernel(format!(
                    "`pooltype` must be SUM, AVERAGE, SQRT, MAX, FIRST or LAST, not `{other}`"
                )));
            }
        })
    }

    /// What each of `len` rows counts in a weighted sum.
    fn weight<T: Real>(self, len: usize) -> T {
        T::from_f64(match self {
            Pool::Average => 1.0 / len as f64,
            Pool::Sqrt => 1.0 / (len as f64).sqrt(),
            _ => 1.0,
        })
    }
}

/// How many sequences there are is known only when the batch is there.
fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let Some((_, rest)) = x.dims.split_first() else {
        return Err(Error::kernel("`X` must have at least one dimension"));
    };
    let mut out = x.with_dims([&[-1], rest].concat());
    out.lod_level = x.lod_level.saturating_sub(1);
    let index = if Pool::of(cx.op())? == Pool::Max { out.dims.clone() } else { vec![0] };
    cx.set("MaxIndex", out.with_dims(index).with_dtype(DType::I32));
    cx.set("Out", out);
    Ok(())
}

/// Only a maximum needs to remember where it came from.
fn grad(view: &OpView<'_>) -> Result<Vec<Op>> {
    let reads: &[&str] = if Pool::of(view)? == Pool::Max { &["X", "MaxIndex"] } else { &["X"] };
    Ok(vec![default_op(view, reads)?])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, mut index) = (op.input("X")?, op.output("Out")?, op.maybe_output("MaxIndex"));
    let (pool, pad) = (Pool::of(op)?, op.f64("pad_value")?);
    let mut indices = Vec::new();
    Ok(Box::new(move |run| {
        let x = run.tensor(x)?;
        let offsets = innermost(x, "X")?;
        let dims = x.dims().with_rows(offsets.len() - 1);
        let out = run.out(&mut out)?;
        out.resize(x.dtype(), dims);
        out.set_lod(&x.lod()[..x.lod().len() - 1]);
        indices.clear();
        indices.resize(if pool == Pool::Max { dims.numel() } else { 0 }, -1);
        dispatch!(x.dtype(), T in [f32, f64] => {
            let (x, width, pad) = (x.as_slice::<T>()?, dims.tail(1), pad as T);
            let rows = out.as_mut_slice::<T>()?.chunks_exact_mut(width.max(1));
            for (at, (range, out)) in ranges(offsets).zip(rows).enumerate() {
                let rows = &x[range.start * width..range.end * width];
                if range.is_empty() {
                    out.fill(pad);
                } else if pool == Pool::Max {
                    max(rows, range.start, out, &mut indices[at * width..][..width]);
                } else {
                    combine(pool, rows, range.len(), out);
                }
            }
            Ok(())
        }, else => Err(not_float("X", x.dtype())))?;
        if let (Some(index), Pool::Max) = (&mut index, pool) {
            let index = run.out(index)?;
            index.resize(DType::I32, dims);
            index.as_mut_slice::<i32>()?.copy_from_slice(&indices);
        }
        Ok(())
    }))
}

/// Every pool but the maximum, of `len` rows.
fn combine<T: Real>(pool: Pool, rows: &[T], len: usize, out: &mut [T]) {
    let width = out.len();
    match pool {
        Pool::First => return out.copy_from_slice(&rows[..width]),
        Pool::Last => return out.copy_from_slice(&rows[(len - 1) * width..]),
        _ => out.copy_from_slice(&rows[..width]),
    }
    for row in rows[width..].chunks_exact(width) {
        for (out, x) in out.iter_mut().zip(row) {
            *out += *x;
        }
    }
    if pool != Pool::Sum {
        let weight = pool.weight::<T>(len);
        out.iter_mut().for_each(|out| *out *= weight);
    }
}

/// The greatest element of each column, and the row of the whole tensor that it stands in.
fn max<T: Real>(rows: &[T], first: usize, out: &mut [T], index: &mut [i32]) {
    let width = out.len();
    out.copy_from_slice(&rows[..width]);
    index.fill(first as i32);
    for (row, x) in rows.chunks_exact(width).enumerate().skip(1) {
        for ((out, index), x) in out.iter_mut().zip(&mut *index).zip(x) {
            if *x > *out {
                *out = *x;
                *index = (first + row) as i32;
            }
        }
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dout, mut dx) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let pool = Pool::of(op)?;
    let index = if pool == Pool::Max { Some(op.input("MaxIndex")?) } else { None };
    float_kernel!(op, "X", |run, T| {
        let dims = run.dims(x)?;
        let offsets = innermost(run.tensor(x)?, "X")?;
        let width = dims.tail(1);
        let (dout, dx) = (run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        let expected = (offsets.len() - 1) * width;
        if dout.len() != expected {
            let given = dout.len();
            return Err(Error::kernel(format!(
                "`Out@GRAD` must have {expected} elements, not {given}"
            )));
        }
        match index {
            Some(index) => max_grad(dout, run.get::<i32>(index)?, width, dx),
            None => {
                for (range, dout) in ranges(offsets).zip(dout.chunks_exact(width.max(1))) {
                    let len = range.len();
                    spread(pool, dout, len, &mut dx[range.start * width..range.end * width]);
                }
            }
        }
    })
}

/// The gradient of one sequence of `len` rows; `combine` backwards.
fn spread<T: Real>(pool: Pool, dout: &[T], len: usize, dx: &mut [T]) {
    if len == 0 {
        return;
    }
    let width = dout.len();
    match pool {
        Pool::First | Pool::Last => {
            dx.fill(T::ZERO);
            let row = if pool == Pool::First { 0 } else { len - 1 };
            dx[row * width..][..width].copy_from_slice(dout);
        }
        _ => {
            let weight = pool.weight::<T>(len);
            for dx in dx.chunks_exact_mut(width) {
                for (dx, dout) in dx.iter_mut().zip(dout) {
                    *dx = *dout * weight;
                }
            }
        }
    }
}

fn max_grad<T: Real>(dout: &[T], index: &[i32], width: usize, dx: &mut [T]) {
    dx.fill(T::ZERO);
    for (at, (dout, row)) in dout.iter().zip(index).enumerate() {
        // Empty sequences have index -1: nothing to credit.
        if let Ok(row) = usize::try_from(*row)
            && let Some(dx) = dx.get_mut(row * width + at % width)
        {
            *dx = *dout;
        }
    }
}
