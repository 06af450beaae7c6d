//! `batch_norm`: normalises each channel over the batch, and keeps running statistics for
//! inference.
//!
//! `SavedVariance` holds `1 / sqrt(variance + epsilon)`, and the running variance is the biased
//! one, both as Paddle's CPU kernel has them.

use bireme_ir::Attr;

use super::channels::{Channels, Coefficients};
use crate::ops::prelude::*;
use crate::ops::shape::given::first_number;

const ATTRS: &[AttrSpec] = &[
    attr::bool("is_test", false),
    attr::float("momentum", 0.9),
    attr::float("epsilon", 1e-5),
    attr::str("data_layout", "NCHW"),
    attr::bool("use_global_stats", false),
    attr::bool("trainable_statistics", false),
];

pub(super) const DEF: OpDef = OpDef::new("batch_norm", kernel)
    .inputs(&[
        Slot::one("X"),
        Slot::maybe("Scale"),
        Slot::maybe("Bias"),
        Slot::one("Mean"),
        Slot::one("Variance"),
        Slot::maybe("MomentumTensor"),
    ])
    .outputs(&[
        Slot::one("Y"),
        Slot::one("MeanOut"),
        Slot::one("VarianceOut"),
        Slot::maybe("SavedMean"),
        Slot::maybe("SavedVariance"),
        Slot::maybe("ReserveSpace"),
    ])
    .attrs(ATTRS)
    .infer(infer)
    .lod_from("X")
    .inplace(&[("Mean", "MeanOut"), ("Variance", "VarianceOut")])
    .gradient(
        Gradient::new(&["X", "Scale", "Bias"], grad_kernel)
            .reads(&[
                "X",
                "Scale",
                "Bias",
                "MeanOut",
                "VarianceOut",
                "SavedMean",
                "SavedVariance",
                "ReserveSpace",
            ])
            .optional(&["MeanOut", "VarianceOut", "SavedMean", "SavedVariance", "ReserveSpace"])
            .formula(formula),
    );

/// The gradient as other ops, with the batch's statistics computed anew: a gradient does not reach them otherwise.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let config = Config::of(f.op())?;
    let (x, dy, rank) = (f.input("X")?, f.input("Y@GRAD")?, f.rank("X")?);
    let channels = if channels_last(f.op(), rank)? { rank - 1 } else { 1 };
    let axes: Vec<i32> = (0..rank).filter(|at| *at != channels).map(|at| at as i32).collect();
    let along = [("axis", Attr::Int(channels as i32))];
    let by_channel = |f: &mut Formula<'_>, kind: &str, x: &str, y: &str| {
        f.apply(kind, &[("X", x), ("Y", y)], &along)
    };
    let mean = match config.global {
        true => f.input("MeanOut")?,
        false => f.reduce("reduce_mean", &x, &axes, false),
    };
    let centred = by_channel(f, "elementwise_sub", &x, &mean);
    let variance = if config.global {
        f.input("VarianceOut")?
    } else {
        let square = f.mul(&centred, &centred);
        f.reduce("reduce_mean", &square, &axes, false)
    };
    let variance = f.affine(&variance, 1.0, config.epsilon);
    let inverse = f.unary("rsqrt", &variance);
    let normal = by_channel(f, "elementwise_mul", &centred, &inverse);
    let product = f.mul(&dy, &normal);
    if f.wants("X@GRAD") {
        let mut given = dy.clone();
        if f.has("Scale") {
            let scale = f.input("Scale")?;
            given = by_channel(f, "elementwise_mul", &dy, &scale);
        }
        if !config.global {
            let share = f.mul(&given, &normal);
            let share = f.reduce("reduce_mean", &share, &axes, false);
            let share = by_channel(f, "elementwise_mul", &normal, &share);
            let mean = f.reduce("reduce_mean", &given, &axes, false);
            let rest = by_channel(f, "elementwise_sub", &given, &mean);
            given = f.sub(&rest, &share);
        }
        let dx = by_channel(f, "elementwise_mul", &given, &inverse);
        f.give("X@GRAD", &dx);
    }
    for (gradient, value) in [("Scale@GRAD", &product), ("Bias@GRAD", &dy)] {
        if f.wants(gradient) {
            let sum = f.sum(value, &axes, false);
            f.give(gradient, &sum);
        }
    }
    Ok(())
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    if x.rank() < 2 {
        return Err(Error::kernel(format!("`X` must have rank 2 or more, not {:?}", x.dims)));
    }
    let last = channels_last(cx.op(), x.rank())?;
    let channels = x.dims[if last { x.rank() - 1 } else { 1 }];
    for slot in ["Scale", "Bias", "Mean", "Variance"] {
        let Some(meta) = cx.maybe_input(slot) else { continue };
        if meta.rank() != 1 || same_dim(meta.dims[0], channels).is_err() {
            return Err(Error::kernel(format!(
                "`{slot}` must have shape [{channels}], one for each channel of `X` {:?}, not {:?}",
                x.dims, meta.dims
            )));
        }
    }
    let empty = x.with_dims([0]);
    cx.set("ReserveSpace", empty);
    cx.like(&[
        ("Y", "X"),
        ("MeanOut", "Mean"),
        ("VarianceOut", "Variance"),
        ("SavedMean", "Mean"),
        ("SavedVariance", "Mean"),
    ])
}

/// A matrix has its channels last whatever the layout says.
fn channels_last(op: &OpView<'_>, rank: usize) -> Result<bool> {
    match op.string("data_layout")?.as_str() {
        "NCHW" | "AnyLayout" => Ok(rank == 2),
        "NHWC" => Ok(true),
        other => Err(Error::kernel(format!("`data_layout` must be NCHW or NHWC, not `{other}`"))),
    }
}

/// What both directions read of the op.
struct Config {
    epsilon: f64,
    /// Whether the running statistics are used instead of the batch's.
    global: bool,
    /// Layout of tensors of rank 3 and more.
    last: bool,
}

impl Config {
    fn of(op: &OpView<'_>) -> Result<Config> {
        let test = op.bool("is_test")? && !op.bool("trainable_statistics")?;
        Ok(Config {
            epsilon: op.f64("epsilon")?,
            global: test || op.bool("use_global_stats")?,
            last: channels_last(op, usize::MAX)?,
        })
    }

    fn channels(&self, dims: Dims) -> Result<Channels> {
        Channels::new(dims, self.last || dims.len() == 2)
    }
}

/// The variables of the forward op.
struct Forward {
    x: In,
    scale: Option<In>,
    bias: Option<In>,
    mean: InOut,
    variance: InOut,
    y: Out,
    saved_mean: Option<Out>,
    saved_variance: Option<Out>,
    config: Config,
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut forward = Forward {
        x: op.input("X")?,
        scale: op.maybe_input("Scale"),
        bias: op.maybe_input("Bias"),
        mean: op.in_out("Mean", "MeanOut")?,
        variance: op.in_out("Variance", "VarianceOut")?,
        y: op.output("Y")?,
        saved_mean: op.maybe_output("SavedMean"),
        saved_variance: op.maybe_output("SavedVariance"),
        config: Config::of(op)?,
    };
    let (momentum, momentum_input) = (op.f64("momentum")?, op.maybe_input("MomentumTensor"));
    let (mut f32_by, mut f64_by) = (Coefficients::default(), Coefficients::default());
    Ok(Box::new(move |run| {
        let momentum = match momentum_input {
            Some(input) => first_number(run.tensor(input)?).unwrap_or(momentum),
            None => momentum,
        };
        let dtype = run.tensor(forward.x)?.dtype();
        match dtype {
            DType::F32 => forward.run(run, momentum as f32, &mut f32_by),
            DType::F64 => forward.run(run, momentum, &mut f64_by),
            other => Err(not_float("X", other)),
        }
    }))
}

impl Forward {
    fn run<T: Real>(&mut self, run: &Run<'_>, momentum: T, by: &mut Coefficients<T>) -> Result<()> {
        let channels = self.config.channels(run.dims(self.x)?)?;
        let (x, y) = (run.get::<T>(self.x)?, run.set::<T>(&mut self.y)?);
        let running_mean = run.update::<T>(&mut self.mean)?;
        let running_variance = run.update::<T>(&mut self.variance)?;
        let single = channels.samples() == 1 && !self.config.global;
        by.reset(channels.count);
        let samples = T::from_f64(channels.samples().max(1) as f64);
        // `shift` becomes the mean and `factor` the variance, until they are put together below.
        if self.config.global {
            by.shift.copy_from_slice(running_mean);
            by.factor.copy_from_slice(running_variance);
        } else {
            channels.reduce((x, x), &by.offset, &mut by.shift, |x, _, _| x);
            by.shift.iter_mut().for_each(|mean| *mean = *mean / samples);
            let deviation = |x: T, _, mean: T| (x - mean) * (x - mean);
            channels.reduce((x, x), &by.shift, &mut by.factor, deviation);
            by.factor.iter_mut().for_each(|variance| *variance = *variance / samples);
        }
        if !self.config.global && !single {
            blend(running_mean, &by.shift, momentum);
            blend(running_variance, &by.factor, momentum);
        }
        let epsilon = T::from_f64(self.config.epsilon);
        by.factor.iter_mut().for_each(|value| *value = T::ONE / (*value + epsilon).sqrt());
        for (saved, values) in
            [(&mut self.saved_mean, &by.shift), (&mut self.saved_variance, &by.factor)]
        {
            if let Some(saved) = saved {
                run.set::<T>(saved)?.copy_from_slice(values);
            }
        }
        if single {
            // One sample has no variance: Paddle passes it unchanged.
            y.copy_from_slice(x);
            return Ok(());
        }
        // `slope * (x - mean) + bias`, with no other term.
        std::mem::swap(&mut by.slope, &mut by.factor);
        by.factor.fill(T::ZERO);
        if let Some(scale) = self.scale {
            let scales = run.get::<T>(scale)?;
            by.slope.iter_mut().zip(scales).for_each(|(slope, scale)| *slope *= *scale);
        }
        if let Some(bias) = self.bias {
            by.offset.copy_from_slice(run.get::<T>(bias)?);
        }
        channels.affine((x, x), by, y);
        Ok(())
    }
}

/// Moves running statistics towards those of the batch.
fn blend<T: Real>(running: &mut [T], batch: &[T], momentum: T) {
    for (running, batch) in running.iter_mut().zip(batch) {
        *running = *running * momentum + *batch * (T::ONE - momentum);
    }
}

/// The variables of the gradient op.
struct Backward {
    x: In,
    scale: Option<In>,
    mean: In,
    /// The running variance, or the batch's inverse deviation.
    spread: In,
    dy: In,
    dx: Option<Out>,
    dscale: Option<Out>,
    dbias: Option<Out>,
    config: Config,
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let config = Config::of(op)?;
    let statistics =
        if config.global { ["MeanOut", "VarianceOut"] } else { ["SavedMean", "SavedVariance"] };
    let mut backward = Backward {
        x: op.input("X")?,
        scale: op.maybe_input("Scale"),
        mean: op.input(statistics[0])?,
        spread: op.input(statistics[1])?,
        dy: op.input("Y@GRAD")?,
        dx: op.maybe_output("X@GRAD"),
        dscale: op.maybe_output("Scale@GRAD"),
        dbias: op.maybe_output("Bias@GRAD"),
        config,
    };
    let (mut f32_by, mut f32_inverse) = (Coefficients::<f32>::default(), Vec::new());
    let (mut f64_by, mut f64_inverse) = (Coefficients::<f64>::default(), Vec::new());
    Ok(Box::new(move |run| {
        let dtype = run.tensor(backward.x)?.dtype();
        match dtype {
            DType::F32 => backward.run(run, &mut f32_by, &mut f32_inverse),
            DType::F64 => backward.run(run, &mut f64_by, &mut f64_inverse),
            other => Err(not_float("X", other)),
        }
    }))
}

impl Backward {
    fn run<T: Real>(
        &mut self,
        run: &Run<'_>,
        by: &mut Coefficients<T>,
        inverse: &mut Vec<T>,
    ) -> Result<()> {
        let channels = self.config.channels(run.dims(self.x)?)?;
        let (x, dy) = (run.get::<T>(self.x)?, run.get::<T>(self.dy)?);
        if channels.samples() == 1 && !self.config.global {
            return self.run_single(run, dy);
        }
        by.reset(channels.count);
        inverse.clear();
        inverse.extend_from_slice(run.get::<T>(self.spread)?);
        if self.config.global {
            let epsilon = T::from_f64(self.config.epsilon);
            inverse.iter_mut().for_each(|value| *value = T::ONE / (*value + epsilon).sqrt());
        }
        by.shift.copy_from_slice(run.get::<T>(self.mean)?);
        // `offset` holds the gradient of the bias, `slope` that of the scale, for now.
        channels.reduce((dy, dy), &by.shift, &mut by.offset, |dy, _, _| dy);
        channels.reduce((dy, x), &by.shift, &mut by.slope, |dy, x, mean| dy * (x - mean));
        by.slope.iter_mut().zip(&*inverse).for_each(|(slope, inverse)| *slope *= *inverse);
        for (output, values) in [(&mut self.dscale, &by.slope), (&mut self.dbias, &by.offset)] {
            if let Some(output) = output {
                run.set::<T>(output)?.copy_from_slice(values);
            }
        }
        let Some(dx) = &mut self.dx else { return Ok(()) };
        let scales = self.scale.map(|scale| run.get::<T>(scale)).transpose()?;
        // Statistics that are constants of the batch do not pass a gradient on.
        let share = if self.config.global { 0.0 } else { 1.0 / channels.samples() as f64 };
        let share = T::from_f64(share);
        for (channel, inverse) in inverse.iter().enumerate() {
            let factor = scales.map_or(T::ONE, |scales| scales[channel]) * *inverse;
            by.factor[channel] = factor;
            by.slope[channel] *= -(factor * *inverse * share);
            by.offset[channel] *= -(factor * share);
        }
        channels.affine((dy, x), by, run.set(dx)?);
        Ok(())
    }

    fn run_single<T: Real>(&mut self, run: &Run<'_>, dy: &[T]) -> Result<()> {
        if let Some(dx) = &mut self.dx {
            run.set::<T>(dx)?.copy_from_slice(dy);
        }
        for output in [&mut self.dscale, &mut self.dbias].into_iter().flatten() {
            run.set::<T>(output)?.fill(T::ZERO);
        }
        Ok(())
    }
}
