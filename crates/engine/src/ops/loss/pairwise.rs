//! What losses of one prediction and one label share: apply a function over slices of equal shape.

use crate::ops::prelude::*;

/// Checks that slots `a` and `b` have one shape.
pub(super) fn same_shape(cx: &Infer<'_>, a: &str, b: &str) -> Result<()> {
    let (left, right) = (cx.input(a)?, cx.input(b)?);
    let fits = left.rank() == right.rank()
        && left.dims.iter().zip(&right.dims).all(|(x, y)| same_dim(*x, *y).is_ok());
    if fits {
        return Ok(());
    }
    Err(Error::kernel(format!(
        "`{a}` {:?} and `{b}` {:?} must have the same shape",
        left.dims, right.dims
    )))
}

/// A kernel `out = f(x, label)`; slots are `[x, label, out]`.
pub(super) fn map(
    op: &OpView<'_>,
    slots: [&'static str; 3],
    f32_fn: impl Fn(f32, f32) -> f32 + Send + 'static,
    f64_fn: impl Fn(f64, f64) -> f64 + Send + 'static,
) -> Result<Kernel> {
    let (x, label, out) = (op.input(slots[0])?, op.input(slots[1])?, op.output(slots[2])?);
    Ok(Box::new(move |run| match run.tensor(x)?.dtype() {
        DType::F32 => each(run.get(x)?, run.get(label)?, run.set(out)?, &f32_fn),
        DType::F64 => each(run.get(x)?, run.get(label)?, run.set(out)?, &f64_fn),
        other => Err(not_float(slots[0], other)),
    }))
}

/// A kernel `dx = dout * f(x, label)`; slots are `[x, label, dout, dx]`.
pub(super) fn map_grad(
    op: &OpView<'_>,
    slots: [&'static str; 4],
    f32_fn: impl Fn(f32, f32) -> f32 + Send + 'static,
    f64_fn: impl Fn(f64, f64) -> f64 + Send + 'static,
) -> Result<Kernel> {
    let (x, label) = (op.input(slots[0])?, op.input(slots[1])?);
    let (dout, dx) = (op.input(slots[2])?, op.output(slots[3])?);
    Ok(Box::new(move |run| match run.tensor(x)?.dtype() {
        DType::F32 => {
            each(run.get(x)?, run.get(label)?, run.set(dx)?, &f32_fn)?;
            times(run.get::<f32>(dout)?, run.set(dx)?)
        }
        DType::F64 => {
            each(run.get(x)?, run.get(label)?, run.set(dx)?, &f64_fn)?;
            times(run.get::<f64>(dout)?, run.set(dx)?)
        }
        other => Err(not_float(slots[0], other)),
    }))
}

fn each<T: Copy>(x: &[T], label: &[T], out: &mut [T], f: &impl Fn(T, T) -> T) -> Result<()> {
    same_len(x.len(), label.len())?;
    for ((out, x), label) in out.iter_mut().zip(x).zip(label) {
        *out = f(*x, *label);
    }
    Ok(())
}

fn times<T: Copy + std::ops::MulAssign>(dout: &[T], dx: &mut [T]) -> Result<()> {
    same_len(dx.len(), dout.len())?;
    for (dx, dout) in dx.iter_mut().zip(dout) {
        *dx *= *dout;
    }
    Ok(())
}

/// Checks that a prediction and what it is compared with have as many elements.
pub(super) fn same_len(expected: usize, given: usize) -> Result<()> {
    if expected == given {
        return Ok(());
    }
    Err(Error::kernel(format!("a loss over {expected} predictions was given {given} values")))
}
