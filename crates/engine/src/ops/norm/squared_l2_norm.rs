//! `squared_l2_norm`: the sum of squares of all elements; global-norm clipping adds these up.

use super::merged_rows::square_sum;
use crate::ops::prelude::*;
use crate::optimizer::RowMergers;

pub(super) const DEF: OpDef = OpDef::new("squared_l2_norm", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    // Squares of rows add up; squares of pieces of a sum do not.
    .split(SplitRule::Batch { rows: &["X"], partial: &["Out"] })
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X"]).formula(|f| {
        let (x, dout) = (f.input("X")?, f.input("Out@GRAD")?);
        let product = f.mul(&x, &dout);
        let dx = f.affine(&product, 2.0, 0.0);
        f.give("X@GRAD", &dx);
        Ok(())
    }));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let out = Meta::new(cx.input("X")?.dtype, [1]);
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let mut mergers = RowMergers::default();
    float_kernel!(op, "X", |run, T| {
        run.set::<T>(&mut out)?[0] = match run.value(x) {
            Value::Tensor(x) => square_sum(x.as_slice::<T>()?),
            Value::Rows(x) => square_sum(mergers.of::<T>().merge(x, x.height)?.values),
        };
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dout, mut dx) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    float_kernel!(op, "X", |run, T| {
        let factor = 2.0 * run.first::<T>(dout)?;
        for (dx, x) in run.set::<T>(&mut dx)?.iter_mut().zip(run.get::<T>(x)?) {
            *dx = factor * x;
        }
    })
}
