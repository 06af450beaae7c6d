//! `mean`: the mean of all elements, a scalar.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("mean", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    // Each worker's mean counts for its share of the batch; the shares add up.
    .split(SplitRule::Batch { rows: &["X"], partial: &["Out"] })
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X"]).second(second::linear));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let out = cx.input("X")?.with_dims([]);
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    float_kernel!(op, "X", |run, T| {
        let x = run.get::<T>(x)?;
        // Summed in double precision: a mean over millions of rows keeps its digits.
        let sum: f64 = vectorized(
            #[inline(always)]
            || sum_of(x, |x| x.to_f64()),
        );
        run.set::<T>(&mut out)?[0] = T::from_f64(sum / x.len() as f64 * run.share.fraction());
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    float_kernel!(op, "Out@GRAD", |run, T| {
        let dx = run.set::<T>(&mut dx)?;
        let share = run.first::<T>(dout)?.to_f64() / dx.len() as f64 * run.share.fraction();
        dx.fill(T::from_f64(share));
    })
}
