//! `reduce_sum` and `reduce_mean`. `out_dtype` converts the elements before they are added.

use super::axes::{self, Axes};
use crate::ops::prelude::*;

pub(super) const SUM: OpDef = axes::def("reduce_sum", sum)
    .gradient(axes::gradient(|op| grad_kernel(op, Weight::One)).second(second::linear))
    .split(SplitRule::Fn(axes::split_sum));

pub(super) const MEAN: OpDef = axes::def("reduce_mean", mean)
    .gradient(axes::gradient(|op| grad_kernel(op, Weight::Mean)).second(second::linear))
    .split(SplitRule::Fn(axes::split_sum));

/// What one element counts in the result.
#[derive(Clone, Copy, PartialEq)]
enum Weight {
    One,
    Mean,
}

fn sum(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let axes = Axes::of(op)?;
    let mut converted = Tensor::empty(DType::F32);
    Ok(Box::new(move |run| {
        let (walk, _) = axes.walk(run.dims(x)?)?;
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let dtype = out.dtype();
        let x = if x.dtype() == dtype {
            x
        } else {
            convert(x, dtype, &mut converted)?;
            &converted
        };
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?);
            axes::reduce(&walk, x, out, T::ZERO, T::plus, |sum, x| sum.plus(sum_of(x, |x| x)));
            Ok(())
        }, else => Err(Error::kernel(format!("cannot add {dtype} elements"))))
    }))
}

fn convert(x: &Tensor, dtype: DType, to: &mut Tensor) -> Result<()> {
    to.resize(dtype, x.dims());
    dispatch!(x.dtype(), S in [f32, f64, i32, i64, u8] => {
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            for (to, from) in to.as_mut_slice::<T>()?.iter_mut().zip(x.as_slice::<S>()?) {
                *to = T::from_f64(from.to_f64());
            }
            Ok(())
        }, else => Err(Error::kernel(format!("cannot add {dtype} elements"))))
    }, else => Err(Error::kernel(format!("cannot convert {} elements", x.dtype()))))
}

fn mean(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let axes = Axes::of(op)?;
    float_kernel!(op, "X", |run, T| {
        let dims = run.dims(x)?;
        let (walk, count) = axes.walk(dims)?;
        // Over the batch, this worker's mean counts for its share.
        let share = if axes.over_rows(dims.len()) { run.share.fraction() } else { 1.0 };
        let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
        axes::reduce(&walk, x, out, T::ZERO, T::plus, |sum, x| sum + sum_of(x, |x| x));
        let weight = T::from_f64(share / count as f64);
        out.iter_mut().for_each(|sum| *sum *= weight);
    })
}

fn grad_kernel(op: &OpView<'_>, weight: Weight) -> Result<Kernel> {
    let (x, dout, mut dx) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let axes = Axes::of(op)?;
    let mut converted = Tensor::empty(DType::F32);
    Ok(Box::new(move |run| {
        let dims = run.dims(x)?;
        let (walk, count) = axes.walk(dims)?;
        let weight = match weight {
            Weight::One => 1.0,
            Weight::Mean if axes.over_rows(dims.len()) => run.share.fraction() / count as f64,
            Weight::Mean => 1.0 / count as f64,
        };
        let (dout, dx) = (run.tensor(dout)?, run.out(&mut dx)?);
        let dout = if dout.dtype() == dx.dtype() {
            dout
        } else {
            convert(dout, dx.dtype(), &mut converted)?;
            &converted
        };
        let dtype = dx.dtype();
        dispatch!(dtype, T in [f32, f64] => {
            let (weight, x) = (T::from_f64(weight), run.get::<T>(x)?);
            let dout = dout.as_slice::<T>()?;
            axes::spread(&walk, x, dout, dout, dx.as_mut_slice()?, |_, _, dout| weight * dout);
            Ok(())
        }, else => Err(Error::kernel(format!("gradients are float32 or float64, not {dtype}"))))
    }))
}
