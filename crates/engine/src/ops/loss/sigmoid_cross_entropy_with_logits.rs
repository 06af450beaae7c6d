//! `sigmoid_cross_entropy_with_logits`: binary cross-entropy of `sigmoid(X)`, computed from the
//! logits so that neither end of the sigmoid loses its digits.

use super::pairwise::{same_len, same_shape};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("sigmoid_cross_entropy_with_logits", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Label"), Slot::maybe("pos_weight")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::bool("normalize", false), attr::int("ignore_index", -100)])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::Fn(split))
    .gradient(
        Gradient::new(&["X"], grad_kernel).reads(&["X", "Label", "pos_weight"]).formula(formula),
    );

/// The gradient as other ops: `dout * (sigmoid(x) - label)`.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let config = Config::of(f.op())?;
    if config.normalize || f.has("pos_weight") {
        return Err(Error::kernel(
            "there is no gradient of a gradient for `sigmoid_cross_entropy_with_logits` with \
             `normalize` or `pos_weight`",
        ));
    }
    let (x, label, dout) = (f.input("X")?, f.input("Label")?, f.input("Out@GRAD")?);
    let ignored = f.filled_like(&label, config.ignore as f32);
    let counts = f.mask("not_equal", &label, &ignored, &x)?;
    let sigmoid = f.unary("sigmoid", &x);
    let miss = f.sub(&sigmoid, &label);
    let slope = f.mul(&miss, &counts);
    let dx = f.mul(&dout, &slope);
    f.give("X@GRAD", &dx);
    Ok(())
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    same_shape(cx, "X", "Label")?;
    if cx.maybe_input("pos_weight").is_some() {
        same_shape(cx, "X", "pos_weight")?;
    }
    cx.like(&[("Out", "X")])
}

/// Normalising divides by the number of labels in the whole batch, so that must be seen whole.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    if view.op.bool("normalize").ok()? { None } else { SplitRule::RowWise.apply(view) }
}

/// The attributes.
#[derive(Clone, Copy)]
struct Config {
    normalize: bool,
    ignore: i32,
}

impl Config {
    fn of(op: &OpView<'_>) -> Result<Config> {
        Ok(Config { normalize: op.bool("normalize")?, ignore: op.i64("ignore_index")? as i32 })
    }

    /// The divisor: labels that count, or 1.
    fn divisor<T: Real>(self, labels: &[T]) -> Option<T> {
        let ignore = f64::from(self.ignore);
        let counts = |label: &&T| (label.to_f64() - ignore).abs() > 1e-6;
        let count = || labels.iter().filter(counts).count().max(1);
        self.normalize.then(|| T::from_f64(count() as f64))
    }

    /// Paddle compares labels with `ignore_index` as integers.
    fn ignores<T: Real>(self, label: T) -> bool {
        label.to_f64() as i32 == self.ignore
    }
}

/// The weights of all elements, when there are any.
fn weights<'a, T: Real>(run: &Run<'a>, input: Option<In>, len: usize) -> Result<Option<&'a [T]>> {
    let Some(input) = input else { return Ok(None) };
    let weights = run.get::<T>(input)?;
    same_len(len, weights.len())?;
    Ok(Some(weights))
}

/// Paddle's weight scales the logarithm only.
#[inline(always)]
fn loss<T: Real>(x: T, label: T, weight: T) -> T {
    let positive = if x > T::ZERO { x } else { T::ZERO };
    positive - x * label + (-x.magnitude()).exp().ln_1p() * weight
}

/// In Paddle's slope the weight scales the whole sigmoid.
#[inline(always)]
fn slope<T: Real>(x: T, label: T, weight: T) -> T {
    let e = (-x.magnitude()).exp();
    let sigmoid = if x >= T::ZERO { T::ONE } else { e } / (T::ONE + e);
    weight * sigmoid - label
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, label, mut out) = (op.input("X")?, op.input("Label")?, op.output("Out")?);
    let (pos_weight, config) = (op.maybe_input("pos_weight"), Config::of(op)?);
    float_kernel!(op, "X", |run, T| {
        let (x, labels, out) = (run.get::<T>(x)?, run.get::<T>(label)?, run.set::<T>(&mut out)?);
        same_len(x.len(), labels.len())?;
        let weights = weights::<T>(run, pos_weight, x.len())?;
        for (i, ((out, x), label)) in out.iter_mut().zip(x).zip(labels).enumerate() {
            let weight = weights.map_or(1.0, |weights| weights[i]);
            let value = loss(*x, *label, weight);
            *out = if config.ignores(*label) { 0.0 } else { value };
        }
        divide(out, config.divisor(labels));
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, label) = (op.input("X")?, op.input("Label")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let (pos_weight, config) = (op.maybe_input("pos_weight"), Config::of(op)?);
    float_kernel!(op, "X", |run, T| {
        let (x, labels) = (run.get::<T>(x)?, run.get::<T>(label)?);
        let (dout, dx) = (run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        same_len(x.len(), labels.len())?;
        same_len(x.len(), dout.len())?;
        let weights = weights::<T>(run, pos_weight, x.len())?;
        let rows = dx.iter_mut().zip(x).zip(labels).zip(dout).enumerate();
        vectorized(
            #[inline(always)]
            || {
                for (i, (((dx, x), label), dout)) in rows {
                    let weight = weights.map_or(1.0, |weights| weights[i]);
                    let value = dout * slope(*x, *label, weight);
                    *dx = if config.ignores(*label) { 0.0 } else { value };
                }
            },
        );
        divide(dx, config.divisor(labels));
    })
}

fn divide<T: Real>(values: &mut [T], divisor: Option<T>) {
    if let Some(divisor) = divisor {
        values.iter_mut().for_each(|value| *value = *value / divisor);
    }
}
