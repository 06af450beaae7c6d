//! `reduce_max` and `reduce_min`. Every element that equals the result gets its whole gradient, as
//! in Paddle.

use super::axes::{self, Axes};
use crate::ops::prelude::*;

pub(super) const MAX: OpDef = axes::def("reduce_max", |op| kernel(op, true))
    .gradient(axes::gradient_from_both(grad_kernel).formula(formula));
pub(super) const MIN: OpDef = axes::def("reduce_min", |op| kernel(op, false))
    .gradient(axes::gradient_from_both(grad_kernel).formula(formula));

/// The gradient as other ops: where an element is the result does not change smoothly.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let (x, out, dout) = (f.input("X")?, f.input("Out")?, f.input("Out@GRAD")?);
    let (attrs, ones) = (f.attrs(), f.filled_like(&dout, 1.0));
    let inputs = [("X", x.as_str()), ("Out", &out), ("Out@GRAD", &ones)];
    let chosen = f.apply_to(f.kind(), &inputs, &attrs, "X@GRAD");
    f.constant(&chosen);
    let spread = f.spread(&x, &dout, &attrs);
    let dx = f.mul(&spread, &chosen);
    f.give("X@GRAD", &dx);
    Ok(())
}

#[inline(always)]
fn larger<T: Number>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

#[inline(always)]
fn smaller<T: Number>(a: T, b: T) -> T {
    if b < a { b } else { a }
}

fn kernel(op: &OpView<'_>, largest: bool) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let axes = Axes::of(op)?;
    Ok(Box::new(move |run| {
        let (walk, count) = axes.walk(run.dims(x)?)?;
        if count == 0 {
            return Err(Error::kernel("nothing has no largest or smallest element"));
        }
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
            if largest {
                let run = |top: T, x: &[T]| fold_of(x, top, larger);
                axes::reduce(&walk, x, out, T::LOWEST, larger, run);
            } else {
                let run = |low: T, x: &[T]| fold_of(x, low, smaller);
                axes::reduce(&walk, x, out, T::HIGHEST, smaller, run);
            }
            Ok(())
        }, else => Err(Error::kernel(format!("{dtype} elements have no order"))))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, out) = (op.input("X")?, op.input("Out")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let axes = Axes::of(op)?;
    float_kernel!(op, "X", |run, T| {
        let (walk, _) = axes.walk(run.dims(x)?)?;
        let (x, out, dout) = (run.get::<T>(x)?, run.get::<T>(out)?, run.get::<T>(dout)?);
        axes::spread(&walk, x, out, dout, run.set::<T>(&mut dx)?, |x, out, dout| {
            if x == out { dout } else { T::ZERO }
        });
    })
}
