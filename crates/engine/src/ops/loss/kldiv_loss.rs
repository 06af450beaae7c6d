//! `kldiv_loss`: the Kullback-Leibler divergence of log-probabilities `X` from `Target`.

use super::pairwise::{same_len, same_shape};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("kldiv_loss", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Target")])
    .outputs(&[Slot::one("Loss")])
    .attrs(&[attr::str("reduction", "mean")])
    .infer(infer)
    .split(SplitRule::Fn(split))
    .gradient(
        Gradient::new(&["X"], grad_kernel).reads(&["X", "Target"]).split(SplitRule::Fn(split_grad)),
    );

/// What becomes of the element-wise losses.
#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    None,
    Sum,
    Mean,
    BatchMean,
}

impl Reduction {
    fn of(op: &OpView<'_>) -> Result<Reduction> {
        Ok(match op.string("reduction")?.as_str() {
            "none" => Reduction::None,
            "sum" => Reduction::Sum,
            "mean" => Reduction::Mean,
            "batchmean" => Reduction::BatchMean,
            other => {
                return Err(Error::kernel(format!(
                    "`reduction` must be none, sum, mean or batchmean, not `{other}`"
                )));
            }
        })
    }

    /// What one element counts in the result, given the elements and rows of this share.
    fn weight(self, run: &Run<'_>, elements: usize, rows: usize) -> f64 {
        match self {
            Reduction::None | Reduction::Sum => 1.0,
            Reduction::Mean => run.share.fraction() / elements.max(1) as f64,
            Reduction::BatchMean => run.share.fraction() / rows.max(1) as f64,
        }
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    same_shape(cx, "X", "Target")?;
    let x = cx.input("X")?;
    let reduced = Reduction::of(cx.op())? != Reduction::None;
    cx.set("Loss", if reduced { x.with_dims([]) } else { x.clone() });
    Ok(())
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let rows = view.spread("X") == Spread::Rows && view.spread("Target") == Spread::Rows;
    let reduced = Reduction::of(view.op).ok()? != Reduction::None;
    rows.then(|| vec![if reduced { Spread::Partial } else { Spread::Rows }])
}

fn split_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let rows = view.spread("X") == Spread::Rows && view.spread("Target") == Spread::Rows;
    let reduced = Reduction::of(view.op).ok()? != Reduction::None;
    let dloss = if reduced { Spread::Whole } else { Spread::Rows };
    (rows && view.spread("Loss@GRAD") == dloss).then(|| vec![Spread::Rows])
}

/// A target of 0 adds nothing, whatever the prediction.
fn loss<T: Real>(x: T, target: T) -> T {
    if target > T::ZERO { target * (target.ln() - x) } else { T::ZERO }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, target, mut out) = (op.input("X")?, op.input("Target")?, op.output("Loss")?);
    let reduction = Reduction::of(op)?;
    float_kernel!(op, "X", |run, T| {
        let rows = run.tensor(x)?.rows();
        let (x, target, out) = (run.get::<T>(x)?, run.get::<T>(target)?, run.set::<T>(&mut out)?);
        same_len(x.len(), target.len())?;
        if reduction == Reduction::None {
            for ((out, x), target) in out.iter_mut().zip(x).zip(target) {
                *out = loss(*x, *target);
            }
        } else {
            out[0] = sum_of_pairs(x, target, loss) * reduction.weight(run, x.len(), rows) as T;
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (target, dloss) = (op.input("Target")?, op.input("Loss@GRAD")?);
    let mut dx = op.output("X@GRAD")?;
    let reduction = Reduction::of(op)?;
    float_kernel!(op, "Target", |run, T| {
        let rows = run.tensor(target)?.rows();
        let (target, dx) = (run.get::<T>(target)?, run.set::<T>(&mut dx)?);
        same_len(dx.len(), target.len())?;
        if reduction == Reduction::None {
            let dloss = run.get::<T>(dloss)?;
            same_len(dx.len(), dloss.len())?;
            for ((dx, target), dloss) in dx.iter_mut().zip(target).zip(dloss) {
                *dx = -target.max(0.0) * dloss;
            }
        } else {
            let weight = reduction.weight(run, dx.len(), rows) as T;
            let factor = run.first::<T>(dloss)? * weight;
            for (dx, target) in dx.iter_mut().zip(target) {
                *dx = -target.max(0.0) * factor;
            }
        }
    })
}
