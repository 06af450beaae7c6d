//! `batch_norm`: sums per channel, what follows from them for each channel (one line of factors),
//! and that line applied to every element: three kernels in each direction.

use bireme_ir::DType;

use crate::lower::divider::divider;
use crate::lower::products::columns::Chunks;
use crate::lower::{Lowering, Outcome, Var, host};
use crate::work::Ref;

/// Numbers of a channel's line, as in `norm.cu`.
const LINE: usize = 4;

/// A tensor seen as `[outer, channels, inner]`.
#[derive(Clone, Copy, Debug)]
struct Channels {
    outer: usize,
    count: usize,
    inner: usize,
}

impl Channels {
    fn of(l: &Lowering<'_>, x: &Var) -> Outcome<Channels> {
        let rank = x.dims.len();
        let is_last = match l.op.string("data_layout")?.as_str() {
            "NHWC" => true,
            "NCHW" | "AnyLayout" => rank == 2,
            _ => return host(),
        };
        let is_wide = matches!(x.dtype, DType::F32 | DType::F64);
        if rank < 2 || !is_wide || i32::try_from(x.numel()).is_err() {
            return host();
        }
        let axis = if is_last { rank - 1 } else { 1 };
        let product = |dims: &[usize]| dims.iter().product();
        let (outer, inner) = (product(&x.dims[..axis]), product(&x.dims[axis + 1..]));
        Ok(Channels { outer, count: x.dims[axis], inner })
    }

    /// Elements of a channel.
    fn samples(self) -> usize {
        self.outer * self.inner
    }

    /// Adds two sums a channel to the work: of `x`, or of `d` and `x`. Returns them, and in how
    /// many chunks.
    fn sums(
        self,
        l: &mut Lowering<'_>,
        x: &Var,
        d: Option<&Var>,
        shifts: Option<&Var>,
    ) -> Outcome<(Ref, usize)> {
        let suffix = x.suffix()?;
        let samples = self.samples();
        if self.inner == 1 {
            let chunks = Chunks::of(samples, self.count, 1);
            let partials = l.scratch(chunks.count * self.count * 16);
            let launch = l.kernel(format!("channel_sums_last_{suffix}"), chunks.blocks, 256);
            let launch = launch.var(x).maybe(d).maybe(shifts).at(partials).size(samples);
            launch.size(self.count).size(chunks.rows).launch();
            return Ok((partials, chunks.count));
        }
        let wanted = (1024 / self.count.max(1)).clamp(1, 512);
        let per_chunk = samples.div_ceil(wanted).max(1024);
        let chunks = samples.div_ceil(per_chunk).max(1);
        let partials = l.scratch(chunks * self.count * 16);
        let blocks = [self.count as u32, chunks as u32, 1];
        let launch = l.kernel(format!("channel_sums_first_{suffix}"), blocks, 256).var(x).maybe(d);
        let launch = launch.maybe(shifts).at(partials).size(samples).size(self.count);
        launch.size(self.inner).size(per_chunk).launch();
        Ok((partials, chunks))
    }

    /// One warp for each channel.
    fn blocks(self) -> [u32; 3] {
        [self.count.div_ceil(8) as u32, 1, 1]
    }

    /// Applies each channel's line to its elements: `factor * a + slope * (b - shift) + offset`.
    fn apply(self, l: &mut Lowering<'_>, [a, b]: [&Var; 2], lines: Ref, out: &Var) -> Outcome {
        if out.numel() == 0 {
            return Ok(());
        }
        let launch = l.over(format!("channel_lines_{}", out.suffix()?), out.numel()).var(a).var(b);
        let launch = launch.at(lines).var(out).size(out.numel());
        launch.value(divider(self.count)).value(divider(self.inner)).launch();
        Ok(())
    }
}

/// Whether the running statistics are used instead of the batch's.
fn is_global(l: &Lowering<'_>) -> Outcome<bool> {
    let is_test = l.op.bool("is_test")? && !l.op.bool("trainable_statistics")?;
    Ok(is_test || l.op.bool("use_global_stats")?)
}

/// The variable in an input slot, if it is one number a channel of the type of `x`.
fn per_channel(l: &Lowering<'_>, slot: &str, x: &Var, channels: usize) -> Outcome<Option<Var>> {
    let Some(var) = l.maybe_input(slot) else { return Ok(None) };
    let var = var.dense()?;
    if var.dtype == x.dtype && var.numel() == channels { Ok(Some(var)) } else { host() }
}

/// The same, of a slot that must not be empty.
fn statistic(l: &Lowering<'_>, slot: &str, x: &Var, channels: usize) -> Outcome<Var> {
    match per_channel(l, slot, x, channels)? {
        Some(var) => Ok(var),
        None => host(),
    }
}

pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    let (x, y) = (l.input("X")?.dense()?, l.output("Y")?);
    let (channels, is_global) = (Channels::of(l, &x)?, is_global(l)?);
    let [scale, bias] = ["Scale", "Bias"].map(|slot| per_channel(l, slot, &x, channels.count));
    let (scale, bias) = (scale?, bias?);
    let mean = statistic(l, "Mean", &x, channels.count)?;
    let variance = statistic(l, "Variance", &x, channels.count)?;
    let momentum_at = l.maybe_input("MomentumTensor");
    if momentum_at.as_ref().is_some_and(|var| var.dtype != x.dtype || var.numel() == 0) {
        return host();
    }
    let (mean_out, variance_out) = (l.output("MeanOut")?, l.output("VarianceOut")?);
    let saved = ["SavedMean", "SavedVariance"].map(|slot| l.maybe_output(slot));
    let (epsilon, momentum) = (l.op.f64("epsilon")?, l.op.f64("momentum")?);
    let (sums, chunks) =
        if is_global { (Ref::NULL, 0) } else { channels.sums(l, &x, None, None)? };
    let lines = l.scratch(channels.count * LINE * x.dtype.size());
    let name = format!("channel_statistics_{}", x.suffix()?);
    let launch = l.kernel(name, channels.blocks(), 256).at(sums).var(&x).size(channels.inner);
    let launch = launch.maybe(scale.as_ref()).maybe(bias.as_ref()).var(&mean).var(&variance);
    let launch = launch.maybe(momentum_at.as_ref()).var(&mean_out).var(&variance_out);
    let launch = launch.maybe(saved[0].as_ref()).maybe(saved[1].as_ref()).at(lines);
    let launch = launch.size(channels.count).size(chunks).size(channels.samples());
    launch.value(epsilon).value(momentum).value(i32::from(is_global)).launch();
    if channels.samples() == 1 && !is_global {
        // One sample has no variance: it passes unchanged.
        l.copy(x.at, y.at, x.bytes());
        return Ok(());
    }
    channels.apply(l, [&x, &x], lines, &y)
}

pub(super) fn backward(l: &mut Lowering<'_>) -> Outcome {
    let (x, d) = (l.input("X")?.dense()?, l.input("Y@GRAD")?.dense()?);
    let (channels, is_global) = (Channels::of(l, &x)?, is_global(l)?);
    if d.dtype != x.dtype || d.numel() != x.numel() {
        return host();
    }
    let scale = per_channel(l, "Scale", &x, channels.count)?;
    let kept = if is_global { ["MeanOut", "VarianceOut"] } else { ["SavedMean", "SavedVariance"] };
    let mean = statistic(l, kept[0], &x, channels.count)?;
    let spread = statistic(l, kept[1], &x, channels.count)?;
    let dx = l.maybe_output("X@GRAD");
    let [dscale, dbias] = ["Scale@GRAD", "Bias@GRAD"].map(|slot| l.maybe_output(slot));
    if channels.samples() == 1 && !is_global {
        if let Some(dx) = dx {
            l.copy(d.at, dx.at, d.bytes());
        }
        for var in [dscale, dbias].into_iter().flatten() {
            l.clear(var.at, var.bytes());
        }
        return Ok(());
    }
    let epsilon = l.op.f64("epsilon")?;
    let (sums, chunks) = channels.sums(l, &x, Some(&d), Some(&mean))?;
    let lines = l.scratch(channels.count * LINE * x.dtype.size());
    let name = format!("channel_slopes_{}", x.suffix()?);
    let launch = l.kernel(name, channels.blocks(), 256).at(sums).maybe(scale.as_ref());
    let launch = launch.var(&mean).var(&spread).maybe(dscale.as_ref()).maybe(dbias.as_ref());
    let launch = launch.at(lines).size(channels.count).size(chunks).size(channels.samples());
    launch.value(epsilon).value(i32::from(is_global)).launch();
    match dx {
        Some(dx) => channels.apply(l, [&d, &x], lines, &dx),
        None => Ok(()),
    }
}
