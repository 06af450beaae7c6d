//! `mean`: the mean of all elements, a scalar.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("mean", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .split(SplitRule::Fn(split))
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X"]).split(SplitRule::Fn(split_grad)));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let out = cx.input("X")?.with_dims([]);
    cx.set("Out", out);
    Ok(())
}

/// Each worker's mean counts for its share of the batch; the shares add up.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    (view.spread("X") == Spread::Rows).then(|| vec![Spread::Partial])
}

fn split_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let fits = view.spread("X") == Spread::Rows && view.spread("Out@GRAD") == Spread::Whole;
    fits.then(|| vec![Spread::Rows])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, out) = (op.input("X")?, op.output("Out")?);
    float_kernel!(op, "X", |run, T| {
        let x = run.get::<T>(x)?;
        // Summed in double precision: a mean over millions of rows keeps its digits.
        let sum: f64 = vectorized(
            #[inline(always)]
            || sum_of(x, |x| x.to_f64()),
        );
        run.set::<T>(out)?[0] = T::from_f64(sum / x.len() as f64 * run.share.fraction());
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (dout, dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    float_kernel!(op, "Out@GRAD", |run, T| {
        let dx = run.set::<T>(dx)?;
        let share = run.first::<T>(dout)?.to_f64() / dx.len() as f64 * run.share.fraction();
        dx.fill(T::from_f64(share));
    })
}
