//! `logsumexp`: the logarithm of the sum of exponentials along some axes, safe for large elements.

use super::axes::{self, Axes};
use crate::ops::elementwise::broadcast_walk::BroadcastWalk;
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] =
    &[attr::ints("axis", &[0]), attr::bool("keepdim", false), attr::bool("reduce_all", false)];

pub(super) const DEF: OpDef = axes::def("logsumexp", kernel)
    .attrs(ATTRS)
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Out"]).formula(formula))
    .split(SplitRule::Fn(split));

/// The gradient as other ops: `dout * exp(x - out)`.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let (x, out, dout) = (f.input("X")?, f.input("Out")?, f.input("Out@GRAD")?);
    let axes = [
        ("dim", f.op().attr("axis")?),
        ("keep_dim", f.op().attr("keepdim")?),
        ("reduce_all", f.op().attr("reduce_all")?),
    ];
    let (out, dout) = (f.spread(&x, &out, &axes), f.spread(&x, &dout, &axes));
    let exponent = f.sub(&x, &out);
    let share = f.unary("exp", &exponent);
    let dx = f.mul(&dout, &share);
    f.give("X@GRAD", &dx);
    Ok(())
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let (reduced, keep) =
        (Axes::named(cx.op(), "axis")?.reduced(x.rank())?, cx.op().bool("keepdim")?);
    let dims = x.dims.iter().zip(reduced).filter(|(_, reduced)| keep || !reduced);
    let dims = dims.map(|(dim, reduced)| if reduced { 1 } else { *dim }).collect::<Vec<_>>();
    cx.set("Out", x.with_dims(dims));
    Ok(())
}

/// Row by row when the batch is kept.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let over_rows = Axes::named(view.op, "axis").ok()?.over_rows(view.meta("X")?.rank());
    let rows = view.spreads.iter().all(|spread| *spread == Spread::Rows);
    (rows && !over_rows).then(|| vec![Spread::Rows])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, axes) = (op.input("X")?, op.output("Out")?, Axes::named(op, "axis")?);
    let mut sums = Tensor::empty(DType::F32);
    float_kernel!(op, "X", |run, T| {
        let (walk, _) = axes.walk(run.dims(x)?)?;
        let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
        sums.resize(T::DTYPE, [out.len()]);
        forward::<T>(&walk, x, out, sums.as_mut_slice()?);
    })
}

/// `max + ln(sum(exp(x - max)))`: no exponential exceeds 1.
fn forward<T: Real>(walk: &BroadcastWalk<1>, x: &[T], out: &mut [T], sums: &mut [T]) {
    let larger = |a: T, b: T| if b > a { b } else { a };
    axes::reduce(walk, x, out, T::LOWEST, larger, |top, x| fold_of(x, top, larger));
    // Infinities would be subtracted from themselves.
    let finite = |x: T| x > T::LOWEST && x < T::HIGHEST;
    out.iter_mut().for_each(|top| *top = if finite(*top) { *top } else { T::ZERO });
    sums.fill(T::ZERO);
    let (len, tops) = (walk.run, &*out);
    vectorized(
        #[inline(always)]
        || {
            walk.for_each(
                #[inline(always)]
                |at, [to]| {
                    let x = &x[at..at + len];
                    if walk.moves[0] {
                        let tops = &tops[to..to + len];
                        for ((sum, x), top) in sums[to..to + len].iter_mut().zip(x).zip(tops) {
                            *sum += (*x - *top).exp();
                        }
                    } else {
                        let top = tops[to];
                        sums[to] += sum_of(x, |x| (x - top).exp());
                    }
                },
            );
        },
    );
    out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum.ln());
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, out) = (op.input("X")?, op.input("Out")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let axes = Axes::named(op, "axis")?;
    float_kernel!(op, "X", |run, T| {
        let (walk, _) = axes.walk(run.dims(x)?)?;
        let (x, out, dout) = (run.get::<T>(x)?, run.get::<T>(out)?, run.get::<T>(dout)?);
        let slope = |x: T, out: T, dout: T| dout * Real::exp(x - out);
        axes::spread(&walk, x, out, dout, run.set::<T>(&mut dx)?, slope);
    })
}
