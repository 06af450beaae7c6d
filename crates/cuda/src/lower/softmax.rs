//! `softmax`, `log_softmax`, and the cross-entropies over classes, with their gradients.

use bireme_ir::DType;

use super::divider::divider;
use super::{Lower, Lowering, Outcome, Var, host};
use crate::work::Ref;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("cross_entropy", cross_entropy),
    ("cross_entropy_grad", cross_entropy_grad),
    ("cross_entropy2", cross_entropy2),
    ("cross_entropy_grad2", cross_entropy2_grad),
    ("fused_softmax_loss", fused_loss),
    ("log_softmax", softmax),
    ("log_softmax_grad", softmax_grad),
    ("softmax", softmax),
    ("softmax_grad", softmax_grad),
    ("softmax_with_cross_entropy", with_cross_entropy),
    ("softmax_with_cross_entropy_grad", with_cross_entropy_grad),
];

/// Samples that are enough for a card if each has one thread.
const MANY_SAMPLES: usize = 1 << 14;

/// Samples whose classes are `len` elements, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Samples {
    count: usize,
    len: usize,
    step: usize,
}

impl Samples {
    /// The samples of `var` whose classes lie along `axis`. Declines none at all, and more elements
    /// than 32 bits count.
    fn along(var: &Var, axis: i64) -> Outcome<Samples> {
        let rank = var.dims.len() as i64;
        let axis = if axis < 0 { axis + rank } else { axis };
        let numel = var.numel();
        if i32::try_from(numel).is_err() {
            return host();
        }
        let (len, step) = match usize::try_from(axis) {
            _ if rank == 0 => (1, 1),
            Ok(axis) if axis < var.dims.len() => {
                (var.dims[axis], var.dims[axis + 1..].iter().product())
            }
            _ => return host(),
        };
        Ok(Samples { count: numel.checked_div(len).unwrap_or(0), len, step })
    }

    /// How many threads share a sample.
    fn team(self) -> usize {
        match self.len {
            _ if self.step > 1 => 1,
            // A thread for each is least work, but takes its time over one.
            0..=16 if self.count >= MANY_SAMPLES => 1,
            0..=1024 => 32,
            _ => 256,
        }
    }

    /// The blocks of teams of `team` threads.
    fn blocks(self, team: usize) -> [u32; 3] {
        [self.count.div_ceil(256 / team).min(1 << 16) as u32, 1, 1]
    }
}

fn softmax(l: &mut Lowering<'_>) -> Outcome {
    let (x, out) = (l.input("X")?.dense()?, l.output("Out")?);
    launch(l, "softmax", &[&x], &x, &out)
}

fn softmax_grad(l: &mut Lowering<'_>) -> Outcome {
    let (y, d) = (l.input("Out")?.dense()?, l.input("Out@GRAD")?.dense()?);
    let dx = l.output("X@GRAD")?;
    if d.dtype != y.dtype || d.numel() != y.numel() {
        return host();
    }
    launch(l, "softmax_grad", &[&y, &d], &y, &dx)
}

fn launch(l: &mut Lowering<'_>, name: &str, from: &[&Var], like: &Var, to: &Var) -> Outcome {
    let is_float = matches!(like.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16);
    if !is_float {
        return host();
    }
    let samples = Samples::along(like, l.op.i64("axis")?)?;
    let (team, is_log) = (samples.team(), l.op.def.name.starts_with("log_"));
    let mut launch =
        l.kernel(format!("{name}_{team}_{}", like.suffix()?), samples.blocks(team), 256);
    for var in from {
        launch = launch.var(var);
    }
    let launch = launch.var(to).size(samples.count).size(samples.len).size(samples.step);
    launch.value(i32::from(is_log)).launch();
    Ok(())
}

/// What samples are compared with.
struct Labels {
    at: Ref,
    /// Bytes of a class; 0 for a probability of each class.
    size: i32,
    ignore: i64,
}

impl Labels {
    /// The labels of `samples`, whose elements are `dtype`; the host says what is wrong with
    /// others.
    fn of(l: &Lowering<'_>, samples: Samples, dtype: DType) -> Outcome<Labels> {
        let label = l.input("Label")?.dense()?;
        // `cross_entropy2` and its gradient know classes only.
        let is_soft = !l.op.def.name.ends_with('2') && l.op.bool("soft_label")?;
        let wanted = if is_soft { samples.count * samples.len } else { samples.count };
        let size = match label.dtype {
            DType::I64 if !is_soft => 8,
            DType::I32 if !is_soft => 4,
            given if is_soft && given == dtype => 0,
            _ => return host(),
        };
        if label.numel() != wanted {
            return host();
        }
        Ok(Labels { at: label.at, size, ignore: l.op.i64("ignore_index")? })
    }
}

/// Declines what has no classes or is no float.
fn classes(var: &Var, axis: i64) -> Outcome<Samples> {
    let samples = Samples::along(var, axis)?;
    let is_wide = matches!(var.dtype, DType::F32 | DType::F64);
    if is_wide && samples.len > 0 { Ok(samples) } else { host() }
}

fn with_cross_entropy(l: &mut Lowering<'_>) -> Outcome {
    let logits = l.input("Logits")?.dense()?;
    let (softmax, loss) = (l.output("Softmax")?, l.output("Loss")?);
    let (axis, use_softmax) = (l.op.i64("axis")?, l.op.bool("use_softmax")?);
    if !use_softmax {
        l.copy(logits.at, softmax.at, logits.bytes());
    }
    forward(l, &logits, axis, use_softmax.then_some(&softmax), &loss, None)
}

/// The same with the gradient of a mean of losses that is minimized.
fn fused_loss(l: &mut Lowering<'_>) -> Outcome {
    let logits = l.input("Logits")?.dense()?;
    let (softmax, loss, dx) = (l.output("Softmax")?, l.output("Loss")?, l.output("Logits@GRAD")?);
    let each = l.op.f64("mean_grad")? / loss.numel().max(1) as f64;
    let axis = l.op.i64("axis")?;
    forward(l, &logits, axis, Some(&softmax), &loss, Some((&dx, each)))
}

/// Probabilities take the same way as logits, without a softmax.
fn cross_entropy(l: &mut Lowering<'_>) -> Outcome {
    let (x, y) = (l.input("X")?.dense()?, l.output("Y")?);
    forward(l, &x, -1, None, &y, None)
}

/// The loss of `x`: of its softmax, which is kept, or of probabilities. With `slope` also the gradient of `x`, where that of
/// each loss is a number.
fn forward(
    l: &mut Lowering<'_>,
    x: &Var,
    axis: i64,
    softmax: Option<&Var>,
    loss: &Var,
    slope: Option<(&Var, f64)>,
) -> Outcome {
    let samples = classes(x, axis)?;
    let labels = Labels::of(l, samples, x.dtype)?;
    if slope.is_some() && labels.size == 0 {
        return host();
    }
    // A class that is looked up is the work of one thread.
    let looks_up = softmax.is_none() && labels.size > 0;
    let team = if looks_up { 1 } else { samples.team() };
    let name = format!("softmax_loss_{team}_{}", x.suffix()?);
    let launch = l.kernel(name, samples.blocks(team), 256).var(x).at(labels.at).maybe(softmax);
    let launch = launch.var(loss).maybe(slope.map(|(dx, _)| dx));
    let launch = launch.value(slope.map_or(0.0, |(_, each)| each));
    let launch = launch.size(samples.count).size(samples.len).size(samples.step);
    let launch = launch.value(i32::from(softmax.is_some())).value(labels.size);
    launch.value(labels.ignore).complaint().launch();
    Ok(())
}

fn with_cross_entropy_grad(l: &mut Lowering<'_>) -> Outcome {
    let (y, d) = (l.input("Softmax")?.dense()?, l.input("Loss@GRAD")?.dense()?);
    let (dx, axis) = (l.output("Logits@GRAD")?, l.op.i64("axis")?);
    let use_softmax = l.op.bool("use_softmax")?;
    backward(l, &y, &d, &dx, axis, use_softmax)
}

fn cross_entropy_grad(l: &mut Lowering<'_>) -> Outcome {
    let (x, d) = (l.input("X")?.dense()?, l.input("Y@GRAD")?.dense()?);
    let dx = l.output("X@GRAD")?;
    backward(l, &x, &d, &dx, -1, false)
}

fn backward(
    l: &mut Lowering<'_>,
    y: &Var,
    d: &Var,
    dx: &Var,
    axis: i64,
    use_softmax: bool,
) -> Outcome {
    let samples = classes(y, axis)?;
    if d.numel() != samples.count || d.dtype != y.dtype {
        return host();
    }
    let labels = Labels::of(l, samples, y.dtype)?;
    if y.numel() == 0 {
        return Ok(());
    }
    let launch = l.over(format!("softmax_loss_grad_{}", y.suffix()?), y.numel());
    let launch = launch.var(y).at(labels.at).var(d).var(dx).size(y.numel());
    let launch = launch.value(divider(samples.len)).value(divider(samples.step));
    let launch = launch.value(i32::from(use_softmax)).value(labels.size);
    launch.value(labels.ignore).complaint().launch();
    Ok(())
}

fn cross_entropy2(l: &mut Lowering<'_>) -> Outcome {
    let (x, y, matched) = (l.input("X")?.dense()?, l.output("Y")?, l.maybe_output("MatchX"));
    let samples = classes(&x, -1)?;
    let labels = Labels::of(l, samples, x.dtype)?;
    let launch = l.over(format!("cross_entropy2_{}", x.suffix()?), samples.count).var(&x);
    let launch = launch.at(labels.at).var(&y).maybe(matched.as_ref()).size(samples.count);
    launch.size(samples.len).value(labels.size).value(labels.ignore).complaint().launch();
    Ok(())
}

fn cross_entropy2_grad(l: &mut Lowering<'_>) -> Outcome {
    let (matched, d) = (l.input("MatchX")?.dense()?, l.input("Y@GRAD")?.dense()?);
    let dx = l.output("X@GRAD")?;
    let samples = classes(&dx, -1)?;
    let fits =
        [&matched, &d].iter().all(|var| var.numel() == samples.count && var.dtype == dx.dtype);
    if !fits {
        return host();
    }
    let labels = Labels::of(l, samples, dx.dtype)?;
    let launch = l.over(format!("cross_entropy2_grad_{}", dx.suffix()?), dx.numel());
    let launch = launch.var(&matched).at(labels.at).var(&d).var(&dx).size(dx.numel());
    launch.size(samples.len).value(labels.size).value(labels.ignore).complaint().launch();
    Ok(())
}
