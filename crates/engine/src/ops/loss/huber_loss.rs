//! `huber_loss`: half the squared residual near 0, linear beyond `delta`.

use super::pairwise::{same_len, same_shape};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("huber_loss", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Y")])
    .outputs(&[Slot::one("Out"), Slot::one("Residual")])
    .attrs(&[attr::required("delta", AttrKind::Float)])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::RowWise)
    .gradient(Gradient::new(&["X", "Y"], grad_kernel).reads(&["Residual"]).like("Residual"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    same_shape(cx, "X", "Y")?;
    cx.like(&[("Out", "X"), ("Residual", "X")])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let (mut out, mut residual) = (op.output("Out")?, op.output("Residual")?);
    let delta = op.f64("delta")?;
    float_kernel!(op, "X", |run, T| {
        let (x, y) = (run.get::<T>(x)?, run.get::<T>(y)?);
        same_len(x.len(), y.len())?;
        let (out, residual) = (run.set::<T>(&mut out)?, run.set::<T>(&mut residual)?);
        let delta = delta as T;
        for (((out, residual), x), y) in out.iter_mut().zip(residual).zip(x).zip(y) {
            *residual = *y - *x;
            *out = loss(*residual, delta);
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (residual, dout) = (op.input("Residual")?, op.input("Out@GRAD")?);
    // The residual is `Y - X`, so the slope has opposite signs for the two.
    let mut sides = [(op.maybe_output("X@GRAD"), -1.0), (op.maybe_output("Y@GRAD"), 1.0)];
    let delta = op.f64("delta")?;
    float_kernel!(op, "Residual", |run, T| {
        let (residual, dout) = (run.get::<T>(residual)?, run.get::<T>(dout)?);
        same_len(residual.len(), dout.len())?;
        for (side, sign) in &mut sides {
            let Some(side) = side else { continue };
            let (delta, sign) = (delta as T, *sign as T);
            for ((d, r), dout) in run.set::<T>(side)?.iter_mut().zip(residual).zip(dout) {
                *d = sign * dout * r.max(-delta).min(delta);
            }
        }
    })
}

fn loss<T: Real>(residual: T, delta: T) -> T {
    let half = T::from_f64(0.5);
    let size = residual.abs();
    if size <= delta { half * size * size } else { delta * (size - half * delta) }
}
