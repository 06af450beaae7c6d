//! `layer_norm`: normalises each row, where a row is all dimensions from `begin_norm_axis` on.

use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[attr::float("epsilon", 1e-5), attr::int("begin_norm_axis", 1)];

pub(super) const DEF: OpDef = OpDef::new("layer_norm", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("Scale"), Slot::maybe("Bias")])
    .outputs(&[Slot::one("Y"), Slot::maybe("Mean"), Slot::maybe("Variance")])
    .attrs(ATTRS)
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::batch(&["X"]))
    .gradient(
        Gradient::new(&["X", "Scale", "Bias"], grad_kernel)
            .reads(&["X", "Scale", "Bias", "Mean", "Variance"])
            .formula(formula),
    );

/// The gradient as other ops, on rows as a matrix.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let (x, dy, epsilon) = (f.input("X")?, f.input("Y@GRAD")?, f.op().f64("epsilon")?);
    let axis = [("axis", f.op().attr("begin_norm_axis")?)];
    let rows = f.apply("flatten", &[("X", &x)], &axis);
    let dy = f.apply("flatten", &[("X", &dy)], &axis);
    let mean = f.reduce("reduce_mean", &rows, &[1], true);
    let centred = f.sub(&rows, &mean);
    let square = f.mul(&centred, &centred);
    let variance = f.reduce("reduce_mean", &square, &[1], true);
    let variance = f.affine(&variance, 1.0, epsilon);
    let inverse = f.unary("rsqrt", &variance);
    let normal = f.mul(&centred, &inverse);
    let product = f.mul(&dy, &normal);
    if f.wants("X@GRAD") {
        let mut given = dy.clone();
        if f.has("Scale") {
            let scale = f.input("Scale")?;
            given = f.mul(&dy, &scale);
        }
        let along = f.mul(&given, &normal);
        let along = f.reduce("reduce_mean", &along, &[1], true);
        let share = f.mul(&normal, &along);
        let mean = f.reduce("reduce_mean", &given, &[1], true);
        let rest = f.sub(&given, &mean);
        let rest = f.sub(&rest, &share);
        let rest = f.mul(&rest, &inverse);
        let dx = f.apply_to("reshape_grad", &[("X", &x), ("Out@GRAD", &rest)], &[], "X@GRAD");
        f.give("X@GRAD", &dx);
    }
    for (slot, value) in [("Scale", &product), ("Bias", &dy)] {
        let gradient = format!("{slot}@GRAD");
        if f.wants(&gradient) {
            let like = f.input(slot)?;
            let sum = f.sum(value, &[0], false);
            let inputs = [("X", like.as_str()), ("Out@GRAD", &sum)];
            let sum = f.apply_to("reshape_grad", &inputs, &[], "X@GRAD");
            f.give(&gradient, &sum);
        }
    }
    Ok(())
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let axis = cx.op().i64("begin_norm_axis")?;
    if axis < 1 || axis >= x.rank() as i64 {
        return Err(Error::kernel(format!(
            "`begin_norm_axis` must lie between 1 and {}, not {axis}",
            x.rank() as i64 - 1
        )));
    }
    let (rows, row) = x.dims.split_at(axis as usize);
    let width = if row.contains(&-1) { -1 } else { row.iter().product() };
    for slot in ["Scale", "Bias"] {
        let Some(meta) = cx.maybe_input(slot) else { continue };
        let given = meta.numel().unwrap_or(-1);
        if same_dim(given, width).is_err() {
            return Err(Error::kernel(format!(
                "`{slot}` must have {width} elements, one for each of a row of `X` {:?}, not {given}",
                x.dims
            )));
        }
    }
    let statistics = x.with_dims(rows);
    cx.set("Mean", statistics.clone());
    cx.set("Variance", statistics);
    cx.like(&[("Y", "X")])
}

/// The elements of one row.
fn width(dims: Dims, axis: usize) -> Result<usize> {
    match dims.get(axis..).map(|row| row.iter().product()) {
        Some(width) if width > 0 => Ok(width),
        _ => Err(Error::kernel(format!("rows of `X` {dims} from axis {axis} are empty"))),
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, scale, bias) = (op.input("X")?, op.maybe_input("Scale"), op.maybe_input("Bias"));
    let mut y = op.output("Y")?;
    let (mut mean, mut variance) = (op.maybe_output("Mean"), op.maybe_output("Variance"));
    let (epsilon, axis) = (op.f64("epsilon")?, op.i64("begin_norm_axis")? as usize);
    float_kernel!(op, "X", |run, T| {
        let width = width(run.dims(x)?, axis)?;
        let (x, y) = (run.get::<T>(x)?, run.set::<T>(&mut y)?);
        let scale = scale.map(|scale| run.get::<T>(scale)).transpose()?;
        let bias = bias.map(|bias| run.get::<T>(bias)).transpose()?;
        let mut means = mean.as_mut().map(|mean| run.set::<T>(mean)).transpose()?;
        let mut variances = variance.as_mut().map(|variance| run.set::<T>(variance)).transpose()?;
        let rows = x.chunks_exact(width).zip(y.chunks_exact_mut(width));
        for (row, (x, y)) in rows.enumerate() {
            let (mean, variance) = normalize(x, epsilon as T, y);
            means.iter_mut().for_each(|means| means[row] = mean);
            variances.iter_mut().for_each(|variances| variances[row] = variance);
            if let Some(scale) = scale {
                y.iter_mut().zip(scale).for_each(|(y, scale)| *y *= *scale);
            }
            if let Some(bias) = bias {
                y.iter_mut().zip(bias).for_each(|(y, bias)| *y += *bias);
            }
        }
    })
}

/// Writes the normalised row; returns its mean and variance.
fn normalize<T: Real>(x: &[T], epsilon: T, y: &mut [T]) -> (T, T) {
    vectorized(
        #[inline(always)]
        || {
            let count = T::from_f64(x.len() as f64);
            let mean = sum_of(x, |x| x) / count;
            let variance = sum_of(x, |x| (x - mean) * (x - mean)) / count;
            let factor = T::ONE / (variance + epsilon).sqrt();
            for (y, x) in y.iter_mut().zip(x) {
                *y = (*x - mean) * factor;
            }
            (mean, variance)
        },
    )
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let [x, mean, variance, dy] =
        [op.input("X")?, op.input("Mean")?, op.input("Variance")?, op.input("Y@GRAD")?];
    let scale = op.maybe_input("Scale");
    let [mut dx, mut dscale, mut dbias] =
        ["X@GRAD", "Scale@GRAD", "Bias@GRAD"].map(|slot| op.maybe_output(slot));
    let (epsilon, axis) = (op.f64("epsilon")?, op.i64("begin_norm_axis")? as usize);
    let (mut f32_row, mut f64_row) = (Vec::<f32>::new(), Vec::<f64>::new());
    float_kernel!(op, "X", |run, T| {
        let width = width(run.dims(x)?, axis)?;
        let row = <T as Scratch>::pick(&mut f32_row, &mut f64_row);
        row.resize(width, 0.0);
        let (x, dy) = (run.get::<T>(x)?, run.get::<T>(dy)?);
        let (means, variances) = (run.get::<T>(mean)?, run.get::<T>(variance)?);
        let scale = scale.map(|scale| run.get::<T>(scale)).transpose()?;
        let mut dx = dx.as_mut().map(|dx| run.set::<T>(dx)).transpose()?;
        let mut dscale = dscale.as_mut().map(|dscale| run.set::<T>(dscale)).transpose()?;
        let mut dbias = dbias.as_mut().map(|dbias| run.set::<T>(dbias)).transpose()?;
        dscale.iter_mut().chain(&mut dbias).for_each(|sum| sum.fill(0.0));
        let statistics = means.iter().zip(variances);
        let rows = x.chunks_exact(width).zip(dy.chunks_exact(width)).zip(statistics);
        for (at, ((x, dy), (mean, variance))) in rows.enumerate() {
            let factor = 1.0 / (variance + epsilon as T).sqrt();
            row.iter_mut().zip(x).for_each(|(row, x)| *row = (x - mean) * factor);
            if let Some(dscale) = &mut dscale {
                accumulate(dscale, row, dy);
            }
            if let Some(dbias) = &mut dbias {
                dbias.iter_mut().zip(dy).for_each(|(sum, dy)| *sum += *dy);
            }
            if let Some(dx) = &mut dx {
                row_grad(row, dy, scale, factor, &mut dx[at * width..][..width]);
            }
        }
    })
}

/// Picks the scratch row of a type, so that one closure serves both.
trait Scratch: Sized {
    fn pick<'a>(f32_row: &'a mut Vec<f32>, f64_row: &'a mut Vec<f64>) -> &'a mut Vec<Self>;
}

impl Scratch for f32 {
    fn pick<'a>(f32_row: &'a mut Vec<f32>, _: &'a mut Vec<f64>) -> &'a mut Vec<f32> {
        f32_row
    }
}

impl Scratch for f64 {
    fn pick<'a>(_: &'a mut Vec<f32>, f64_row: &'a mut Vec<f64>) -> &'a mut Vec<f64> {
        f64_row
    }
}

fn accumulate<T: Real>(sums: &mut [T], normalized: &[T], dy: &[T]) {
    vectorized(
        #[inline(always)]
        || {
            for ((sum, normalized), dy) in sums.iter_mut().zip(normalized).zip(dy) {
                *sum += *normalized * *dy;
            }
        },
    );
}

/// With `g = dy * scale` and `n` the normalised row: `factor * (g - mean(g) - n * mean(g * n))`.
fn row_grad<T: Real>(normalized: &[T], dy: &[T], scale: Option<&[T]>, factor: T, dx: &mut [T]) {
    dx.copy_from_slice(dy);
    if let Some(scale) = scale {
        dx.iter_mut().zip(scale).for_each(|(dx, scale)| *dx *= *scale);
    }
    vectorized(
        #[inline(always)]
        || {
            let count = T::from_f64(dx.len() as f64);
            let mean = sum_of(dx, |g| g) / count;
            let slope = sum_of_pairs(dx, normalized, |g, n| g * n) / count;
            for (dx, n) in dx.iter_mut().zip(normalized) {
                *dx = factor * (*dx - mean - *n * slope);
            }
        },
    );
}
