//! `softmax_with_cross_entropy`: cross-entropy of `softmax(Logits)` along `axis`, computed from
//! the logits (`ln` of a sum of exponentials), so that an improbable class keeps its digits.
//!
//! The loss is exact where Paddle's CPU kernel saturates (a logit 64 below the greatest).

use bireme_ir::{Op, grad_name};

use super::labels::{Labels, minus_ln};
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::bool("soft_label", false),
    attr::bool("use_softmax", true),
    attr::bool("numeric_stable_mode", true),
    attr::int("ignore_index", -100),
    attr::int("axis", -1),
];

pub(super) const DEF: OpDef = OpDef::new("softmax_with_cross_entropy", kernel)
    .inputs(&[Slot::one("Logits"), Slot::one("Label")])
    .outputs(&[Slot::one("Softmax"), Slot::one("Loss")])
    .attrs(ATTRS)
    .infer(infer)
    .lod_from("Logits")
    .split(SplitRule::Fn(split))
    .gradient(
        Gradient::new(&["Logits"], grad_kernel)
            .reads(&["Label", "Softmax"])
            .from(&["Loss"])
            .like("Softmax")
            .formula(formula),
    )
    .side_gradient(softmax_gradient);

/// The gradient of a loss that depends on `Softmax`: that of the op `softmax`.
fn softmax_gradient(view: &OpView<'_>) -> Result<Vec<Op>> {
    let grad = |vars: &[String]| vars.iter().map(|var| grad_name(var)).collect::<Vec<_>>();
    let softmax = view.op.outputs_of("Softmax");
    let dlogits = grad(view.op.inputs_of("Logits"));
    if !view.bool("use_softmax")? {
        let copy = Op::new("assign").input("X", grad(softmax)).output("Out", dlogits);
        return Ok(vec![copy]);
    }
    let op = Op::new("softmax_grad")
        .input("Out", softmax.to_vec())
        .input("Out@GRAD", grad(softmax))
        .output("X@GRAD", dlogits)
        .attr("axis", view.attr("axis")?);
    Ok(vec![op])
}

/// The gradient as other ops: `dloss * (softmax - target)`, 0 where a label is ignored. What the labels say is taken
/// from the gradient op itself, which is linear in `softmax`.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    if !f.op().bool("use_softmax")? {
        return Err(Error::kernel(
            "there is no gradient of a gradient for a cross entropy of probabilities \
             (`use_softmax=False`)",
        ));
    }
    let (softmax, label, dloss) = (f.input("Softmax")?, f.input("Label")?, f.input("Loss@GRAD")?);
    let attrs = f.attrs();
    let weight = f.filled_like(&dloss, 1.0);
    let mut slope_at = |value: f32| {
        let at = f.filled_like(&softmax, value);
        let inputs = [("Label", label.as_str()), ("Softmax", &at), ("Loss@GRAD", &weight)];
        let slope = f.apply_to(f.kind(), &inputs, &attrs, "Logits@GRAD");
        f.constant(&slope);
        slope
    };
    let (at_zero, at_one) = (slope_at(0.0), slope_at(1.0));
    let counts = f.sub(&at_one, &at_zero);
    let counted = f.mul(&softmax, &counts);
    let slope = f.add(&counted, &at_zero);
    let dlogits = f.mul(&slope, &dloss);
    f.give("Logits@GRAD", &dlogits);
    Ok(())
}

/// The loss with what its gradient would make of the mean over all samples, whose own gradient is `mean_grad`: where that is
/// known beforehand, a card needs no second op.
pub(super) const FUSED: OpDef = OpDef::new("fused_softmax_loss", fused_kernel)
    .inputs(&[Slot::one("Logits"), Slot::one("Label")])
    .outputs(&[Slot::one("Softmax"), Slot::one("Loss"), Slot::one("Logits@GRAD")])
    .attrs(&[
        attr::bool("soft_label", false),
        attr::int("ignore_index", -100),
        attr::int("axis", -1),
        attr::float("mean_grad", 1.0),
    ])
    .infer(|cx| {
        infer(cx)?;
        cx.like(&[("Logits@GRAD", "Logits")])
    });

/// The attributes.
#[derive(Clone, Copy)]
struct Config {
    soft_label: bool,
    use_softmax: bool,
    ignore: i64,
    axis: i64,
}

impl Config {
    fn of(op: &OpView<'_>) -> Result<Config> {
        Ok(Config {
            soft_label: op.bool("soft_label")?,
            use_softmax: op.bool("use_softmax")?,
            ignore: op.i64("ignore_index")?,
            axis: op.i64("axis")?,
        })
    }

    fn classes(self, dims: Dims) -> Result<Classes> {
        let axis = if self.axis < 0 { self.axis + dims.len() as i64 } else { self.axis } as usize;
        match dims.get(axis) {
            Some(&classes) if classes > 0 => Ok(Classes { classes, step: dims.tail(axis + 1) }),
            _ => Err(Error::kernel(format!("logits {dims} have no classes on axis {axis}"))),
        }
    }
}

/// Where the classes of one sample lie: `classes` elements, `step` apart.
#[derive(Clone, Copy)]
struct Classes {
    classes: usize,
    step: usize,
}

impl Classes {
    /// The position of the first class of sample `sample`.
    fn start(self, sample: usize) -> usize {
        let block = sample / self.step;
        block * self.classes * self.step + (sample - block * self.step)
    }

    /// The positions of all classes of sample `sample`.
    fn of(self, sample: usize) -> impl Iterator<Item = usize> {
        let start = self.start(sample);
        (0..self.classes).map(move |class| start + class * self.step)
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (logits, label) = (cx.input("Logits")?, cx.input("Label")?);
    let axis = logits.axis(cx.op().i64("axis")?)?;
    let mut loss = logits.clone();
    let Some(classes) = loss.dims.get_mut(axis) else {
        return Err(Error::kernel("`Logits` must have at least one dimension"));
    };
    *classes = 1;
    let expected = if cx.op().bool("soft_label")? { &logits.dims } else { &loss.dims };
    let fits = label.rank() == expected.len()
        && label.dims.iter().zip(expected).all(|(a, b)| same_dim(*a, *b).is_ok());
    if !fits {
        return Err(Error::kernel(format!(
            "`Label` must have shape {expected:?} for logits {:?}, not {:?}",
            logits.dims, label.dims
        )));
    }
    cx.set("Softmax", logits.clone());
    cx.set("Loss", loss);
    Ok(())
}

/// Samples are independent unless the classes are the batch.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let rank = view.outputs.first()?.rank() as i64;
    let axis = view.op.i64("axis").ok()?;
    let first = axis == 0 || axis + rank == 0;
    if first { None } else { SplitRule::RowWise.apply(view) }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (logits, label) = (op.input("Logits")?, op.input("Label")?);
    let (mut softmax, mut loss) = (op.output("Softmax")?, op.output("Loss")?);
    let config = Config::of(op)?;
    float_kernel!(op, "Logits", |run, T| {
        let label = run.tensor(label)?;
        let classes = config.classes(run.dims(logits)?)?;
        let logits = run.get::<T>(logits)?;
        let (softmax, loss) = (run.set::<T>(&mut softmax)?, run.set::<T>(&mut loss)?);
        let target = Target::<T>::of(label, &config, logits.len(), loss.len())?;
        if config.use_softmax {
            normalize(logits, softmax, classes, loss);
            for (sample, loss) in loss.iter_mut().enumerate() {
                let ln_sum = *loss;
                *loss = target.mean(classes, sample, |at| ln_sum - logits[at])?;
            }
        } else {
            softmax.copy_from_slice(logits);
            for (sample, loss) in loss.iter_mut().enumerate() {
                *loss = target.mean(classes, sample, |at| minus_ln(logits[at]))?;
            }
        }
    })
}

/// Writes the softmax of every sample, and the `ln` of its sum of exponentials.
fn normalize<T: Real>(logits: &[T], softmax: &mut [T], classes: Classes, ln_sums: &mut [T]) {
    if classes.step > 1 {
        for (sample, ln_sum) in ln_sums.iter_mut().enumerate() {
            *ln_sum = normalize_strided(logits, softmax, classes, sample);
        }
        return;
    }
    let rows = logits.chunks_exact(classes.classes).zip(softmax.chunks_exact_mut(classes.classes));
    vectorized(
        #[inline(always)]
        || {
            for ((logits, softmax), ln_sum) in rows.zip(ln_sums) {
                *ln_sum = normalize_row(logits, softmax);
            }
        },
    );
}

/// Classes that lie side by side.
#[inline(always)]
fn normalize_row<T: Real>(logits: &[T], softmax: &mut [T]) -> T {
    let greatest = fold_of(logits, T::LOWEST, |max, x| if x > max { x } else { max });
    for (out, x) in softmax.iter_mut().zip(logits) {
        *out = (*x - greatest).exp();
    }
    let total = sum_of(softmax, |x| x);
    let factor = T::ONE / total;
    for out in softmax {
        *out *= factor;
    }
    greatest + total.ln()
}

/// Classes with those of other samples between them.
fn normalize_strided<T: Real>(
    logits: &[T],
    softmax: &mut [T],
    classes: Classes,
    sample: usize,
) -> T {
    let greatest = classes.of(sample).fold(logits[classes.start(sample)], |max, at| {
        if logits[at] > max { logits[at] } else { max }
    });
    let mut total = T::ZERO;
    for at in classes.of(sample) {
        softmax[at] = (logits[at] - greatest).exp();
        total += softmax[at];
    }
    let factor = T::ONE / total;
    for at in classes.of(sample) {
        softmax[at] *= factor;
    }
    greatest + total.ln()
}

/// What the prediction is compared with.
enum Target<'a, T> {
    /// One class a sample, or none where it is to be ignored.
    Hard(Labels<'a>, i64),
    /// A probability for every class.
    Soft(&'a [T]),
}

impl<'a, T: Real> Target<'a, T> {
    fn of(label: &'a Tensor, config: &Config, len: usize, samples: usize) -> Result<Self> {
        if !config.soft_label {
            return Ok(Target::Hard(Labels::of(label, samples)?, config.ignore));
        }
        let label = label.as_slice::<T>()?;
        if label.len() != len {
            let given = label.len();
            return Err(Error::kernel(format!("soft labels need {len} values, not {given}")));
        }
        Ok(Target::Soft(label))
    }

    /// The mean of `cost` (by position) under the target's distribution over classes.
    fn mean(&self, classes: Classes, sample: usize, cost: impl Fn(usize) -> T) -> Result<T> {
        match self {
            Target::Hard(labels, ignore) => {
                let class = labels.class(sample, classes.classes, *ignore)?;
                let at = |class| classes.start(sample) + class * classes.step;
                Ok(class.map_or(T::ZERO, |class| cost(at(class))))
            }
            Target::Soft(label) => {
                let costs = classes.of(sample).map(|at| label[at] * cost(at));
                Ok(costs.fold(T::ZERO, |sum, cost| sum + cost))
            }
        }
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (label, softmax) = (op.input("Label")?, op.input("Softmax")?);
    let (dloss, mut dlogits) = (op.input("Loss@GRAD")?, op.output("Logits@GRAD")?);
    let config = Config::of(op)?;
    float_kernel!(op, "Softmax", |run, T| {
        let label = run.tensor(label)?;
        let classes = config.classes(run.dims(softmax)?)?;
        let (softmax, dloss) = (run.get::<T>(softmax)?, run.get::<T>(dloss)?);
        let dlogits = run.set::<T>(&mut dlogits)?;
        let target = Target::<T>::of(label, &config, softmax.len(), dloss.len())?;
        if config.use_softmax {
            slope_of_logits(softmax, dloss.iter().copied(), &target, classes, dlogits)?;
        } else {
            slope_of_probabilities(softmax, dloss, &target, classes, dlogits)?;
        }
    })
}

fn fused_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (logits, label) = (op.input("Logits")?, op.input("Label")?);
    let (mut softmax, mut loss) = (op.output("Softmax")?, op.output("Loss")?);
    let (mut dlogits, mean_grad) = (op.output("Logits@GRAD")?, op.f64("mean_grad")?);
    let config = Config {
        soft_label: op.bool("soft_label")?,
        use_softmax: true,
        ignore: op.i64("ignore_index")?,
        axis: op.i64("axis")?,
    };
    float_kernel!(op, "Logits", |run, T| {
        let label = run.tensor(label)?;
        let classes = config.classes(run.dims(logits)?)?;
        let logits = run.get::<T>(logits)?;
        let (softmax, loss) = (run.set::<T>(&mut softmax)?, run.set::<T>(&mut loss)?);
        let target = Target::<T>::of(label, &config, logits.len(), loss.len())?;
        normalize(logits, softmax, classes, loss);
        for (sample, loss) in loss.iter_mut().enumerate() {
            let ln_sum = *loss;
            *loss = target.mean(classes, sample, |at| ln_sum - logits[at])?;
        }
        let each = T::from_f64(mean_grad / loss.len() as f64 * run.share.fraction());
        let dloss = std::iter::repeat_n(each, loss.len());
        slope_of_logits(softmax, dloss, &target, classes, run.set::<T>(&mut dlogits)?)?;
    })
}

/// `(softmax - target) * dloss`.
fn slope_of_logits<T: Real>(
    softmax: &[T],
    dloss: impl Iterator<Item = T>,
    target: &Target<'_, T>,
    classes: Classes,
    dlogits: &mut [T],
) -> Result<()> {
    for (sample, dloss) in dloss.enumerate() {
        match target {
            Target::Soft(label) => {
                for at in classes.of(sample) {
                    dlogits[at] = dloss * (softmax[at] - label[at]);
                }
            }
            Target::Hard(labels, ignore) => {
                let class = labels.class(sample, classes.classes, *ignore)?;
                let factor = if class.is_some() { dloss } else { T::ZERO };
                if classes.step == 1 {
                    let row = classes.start(sample)..classes.start(sample) + classes.classes;
                    for (dlogit, softmax) in dlogits[row.clone()].iter_mut().zip(&softmax[row]) {
                        *dlogit = *softmax * factor;
                    }
                } else {
                    classes.of(sample).for_each(|at| dlogits[at] = softmax[at] * factor);
                }
                if let Some(class) = class {
                    dlogits[classes.start(sample) + class * classes.step] -= dloss;
                }
            }
        }
    }
    Ok(())
}

/// `-target / probability * dloss`.
fn slope_of_probabilities<T: Real>(
    probability: &[T],
    dloss: &[T],
    target: &Target<'_, T>,
    classes: Classes,
    dx: &mut [T],
) -> Result<()> {
    for (sample, dloss) in dloss.iter().enumerate() {
        match target {
            Target::Soft(label) => {
                for at in classes.of(sample) {
                    dx[at] = -label[at] / probability[at] * *dloss;
                }
            }
            Target::Hard(labels, ignore) => {
                classes.of(sample).for_each(|at| dx[at] = T::ZERO);
                if let Some(class) = labels.class(sample, classes.classes, *ignore)? {
                    let at = classes.start(sample) + class * classes.step;
                    dx[at] = -*dloss / probability[at];
                }
            }
        }
    }
    Ok(())
}
