//! What functions of one element share: apply a closure over slices, for both float types.

use crate::op::{Kernel, OpView};
use crate::{Error, Result};

/// A kernel `Out = f(X)` for both float types.
pub(crate) fn map(
    view: &OpView<'_>,
    f32_fn: impl Fn(f32) -> f32 + Send + 'static,
    f64_fn: impl Fn(f64) -> f64 + Send + 'static,
) -> Result<Kernel> {
    let (x, out) = (view.input("X")?, view.output("Out")?);
    Ok(Box::new(move |run| {
        let dtype = run.tensor(x)?.dtype();
        match dtype {
            bireme_ir::DType::F32 => each(run.get(x)?, run.set(out)?, &f32_fn),
            bireme_ir::DType::F64 => each(run.get(x)?, run.set(out)?, &f64_fn),
            other => {
                return Err(Error::kernel(format!("`X` must be float32 or float64, not {other}")));
            }
        }
        Ok(())
    }))
}

fn each<T: Copy>(x: &[T], out: &mut [T], f: &impl Fn(T) -> T) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = f(*x);
    }
}

/// A kernel `X@GRAD = f(value, Out@GRAD)`, where `value` is the forward input or output in slot
/// `slot`.
pub(crate) fn map_grad(
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
            bireme_ir::DType::F32 => {
                each_grad(run.get(value)?, run.get(dout)?, run.set(dx)?, &f32_fn);
            }
            bireme_ir::DType::F64 => {
                each_grad(run.get(value)?, run.get(dout)?, run.set(dx)?, &f64_fn);
            }
            other => {
                return Err(Error::kernel(format!(
                    "gradients are float32 or float64, not {other}"
                )));
            }
        }
        Ok(())
    }))
}

fn each_grad<T: Copy>(value: &[T], dout: &[T], dx: &mut [T], f: &impl Fn(T, T) -> T) {
    for ((dx, value), dout) in dx.iter_mut().zip(value).zip(dout) {
        *dx = f(*value, *dout);
    }
}
