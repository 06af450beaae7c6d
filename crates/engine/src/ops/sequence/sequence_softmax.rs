//! `sequence_softmax`: softmax over each sequence of numbers.

use super::offsets::{innermost, ranges};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("sequence_softmax", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .lod_from("X")
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Out"]).lod_from("X"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    if x.dims.iter().skip(1).any(|dim| !matches!(*dim, 1 | -1)) {
        return Err(Error::kernel(format!("`X` must have one column, not shape {:?}", x.dims)));
    }
    cx.like(&[("Out", "X")])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    float_kernel!(op, "X", |run, T| {
        let offsets = innermost(run.tensor(x)?, "X")?;
        let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
        for range in ranges(offsets) {
            softmax(&x[range.clone()], &mut out[range]);
        }
    })
}

fn softmax<T: Real>(x: &[T], out: &mut [T]) {
    let Some(first) = x.first() else { return };
    let greatest = x.iter().fold(*first, |max, x| max.max(*x));
    let mut total = T::ZERO;
    for (out, x) in out.iter_mut().zip(x) {
        *out = (*x - greatest).exp();
        total += *out;
    }
    let factor = T::ONE / total;
    out.iter_mut().for_each(|out| *out *= factor);
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, out) = (op.input("X")?, op.input("Out")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    float_kernel!(op, "X", |run, T| {
        let offsets = innermost(run.tensor(x)?, "X")?;
        let (out, dout, dx) = (run.get::<T>(out)?, run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        for range in ranges(offsets) {
            let (out, dout) = (&out[range.clone()], &dout[range.clone()]);
            let mean = sum_of_pairs(out, dout, |out, dout| out * dout);
            for ((dx, out), dout) in dx[range].iter_mut().zip(out).zip(dout) {
                *dx = out * (dout - mean);
            }
        }
    })
}
