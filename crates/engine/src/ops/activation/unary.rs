//! What functions of one element share: slots, shapes, and loops over slices for both float types.

use crate::ops::prelude::*;

/// The definition of `Out = f(X)`.
pub(in crate::ops) const fn def(
    name: &'static str,
    kernel: fn(&OpView<'_>) -> Result<Kernel>,
) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("X")] })
        .outputs(const { &[Slot::one("Out")] })
        .like(&[("Out", "X")])
        .lod_from("X")
        .split(SplitRule::RowWise)
}

/// A gradient that needs the forward op's input.
pub(in crate::ops) const fn from_x(kernel: fn(&OpView<'_>) -> Result<Kernel>) -> Gradient {
    Gradient::new(&["X"], kernel).reads(&["X"])
}

/// A gradient that needs the forward op's output.
pub(in crate::ops) const fn from_out(kernel: fn(&OpView<'_>) -> Result<Kernel>) -> Gradient {
    Gradient::new(&["X"], kernel).reads(&["Out"]).like("Out")
}

/// A kernel `Out = f(X)` for both float types.
pub(in crate::ops) fn map(
    view: &OpView<'_>,
    f32_fn: impl Fn(f32) -> f32 + Send + 'static,
    f64_fn: impl Fn(f64) -> f64 + Send + 'static,
) -> Result<Kernel> {
    let (x, out) = (view.input("X")?, view.output("Out")?);
    Ok(Box::new(move |run| {
        let dtype = run.tensor(x)?.dtype();
        match dtype {
            DType::F32 => each(run.get(x)?, run.set(out)?, &f32_fn),
            DType::F64 => each(run.get(x)?, run.set(out)?, &f64_fn),
            other => {
                return Err(Error::kernel(format!("`X` must be float32 or float64, not {other}")));
            }
        }
        Ok(())
    }))
}

/// Writes `f(x)` for every element.
pub(in crate::ops) fn each<T: Copy, R>(x: &[T], out: &mut [R], f: &impl Fn(T) -> R) {
    vectorized(
        #[inline(always)]
        || {
            for (out, x) in out.iter_mut().zip(x) {
                *out = f(*x);
            }
        },
    );
}

/// A kernel `X@GRAD = f(value, Out@GRAD)`, where `value` is the forward input or output in slot
/// `slot`.
pub(in crate::ops) fn map_grad(
    view: &OpView<'_>,
    slot: &str,
    f32_fn: impl Fn(f32, f32) -> f32 + Send + 'static,
    f64_fn: impl Fn(f64, f64) -> f64 + Send + 'static,
) -> Result<Kernel> {
    let (value, dout) = (view.input(slot)?, view.input("Out@GRAD")?);
    let dx = view.output("X@GRAD")?;
    Ok(Box::new(move |run| {
        let dtype = run.tensor(dout)?.dtype();
        match dtype {
            DType::F32 => each_grad(run.get(value)?, run.get(dout)?, run.set(dx)?, &f32_fn),
            DType::F64 => each_grad(run.get(value)?, run.get(dout)?, run.set(dx)?, &f64_fn),
            other => {
                return Err(Error::kernel(format!(
                    "gradients are float32 or float64, not {other}"
                )));
            }
        }
        Ok(())
    }))
}

/// Writes `f(value, dout)` for every element.
pub(in crate::ops) fn each_grad<T: Copy>(
    value: &[T],
    dout: &[T],
    dx: &mut [T],
    f: &impl Fn(T, T) -> T,
) {
    vectorized(
        #[inline(always)]
        || {
            for ((dx, value), dout) in dx.iter_mut().zip(value).zip(dout) {
                *dx = f(*value, *dout);
            }
        },
    );
}
