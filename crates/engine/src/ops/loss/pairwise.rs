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

/// Writes `f(x, label)` for every element.
pub(super) fn each<T: Real>(
    x: &[T],
    label: &[T],
    out: &mut [T],
    f: impl Fn(T, T) -> T,
) -> Result<()> {
    same_len(x.len(), label.len())?;
    for ((out, x), label) in out.iter_mut().zip(x).zip(label) {
        *out = f(*x, *label);
    }
    Ok(())
}

/// Writes `dout * f(x, label)` for every element.
pub(super) fn each_grad<T: Real>(
    x: &[T],
    label: &[T],
    dout: &[T],
    dx: &mut [T],
    f: impl Fn(T, T) -> T,
) -> Result<()> {
    same_len(dx.len(), dout.len())?;
    each(x, label, dx, f)?;
    dx.iter_mut().zip(dout).for_each(|(dx, dout)| *dx *= *dout);
    Ok(())
}

/// Checks that a prediction and what it is compared with have as many elements.
pub(super) fn same_len(expected: usize, given: usize) -> Result<()> {
    if expected == given {
        return Ok(());
    }
    Err(Error::kernel(format!("a loss over {expected} predictions was given {given} values")))
}
