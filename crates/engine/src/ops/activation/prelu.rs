//! `prelu`: `Out = X` above zero, `Alpha * X` below, with one learnt `Alpha` for all elements, per
//! channel, or per element of a row.

use crate::ops::elementwise::binary::{apply, gather};
use crate::ops::elementwise::broadcast_walk::BroadcastWalk;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("prelu", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Alpha")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::str("mode", "all"), attr::str("data_format", "NCHW")])
    .like(&[("Out", "X")])
    .lod_from("X")
    .split(SplitRule::batch(&["X"]))
    .gradient(Gradient::new(&["X", "Alpha"], grad_kernel).reads(&["X", "Alpha"]));

/// What one element of `Alpha` is for.
#[derive(Clone, Copy)]
enum Mode {
    All,
    Channel { last: bool },
    Element,
}

impl Mode {
    fn of(op: &OpView<'_>) -> Result<Mode> {
        Ok(match op.string("mode")?.as_str() {
            "all" => Mode::All,
            "channel" => Mode::Channel { last: op.string("data_format")? == "NHWC" },
            "element" => Mode::Element,
            other => {
                return Err(Error::kernel(format!(
                    "attribute `mode` must be `all`, `channel` or `element`, not `{other}`"
                )));
            }
        })
    }

    /// The walk over `X` and `Alpha`.
    fn walk(self, x: Dims, alpha: Dims) -> Result<BroadcastWalk<2>> {
        let mut dims = [1; MAX_RANK];
        let rank = x.len();
        match self {
            Mode::All => {}
            Mode::Channel { .. } if rank < 2 => {
                return Err(Error::kernel(format!("`X` {x} has no channels")));
            }
            Mode::Channel { last } => {
                let axis = if last { rank - 1 } else { 1 };
                dims[axis] = x[axis];
            }
            Mode::Element => {
                let axes = 1.min(rank)..rank;
                dims[axes.clone()].copy_from_slice(&x[axes]);
            }
        }
        let needed: usize = dims.iter().product();
        if alpha.numel() != needed {
            return Err(Error::kernel(format!(
                "`Alpha` must have {needed} elements for `X` {x}, not {}",
                alpha.numel()
            )));
        }
        BroadcastWalk::new(&x, [&x, &dims[..rank]])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, alpha, mut out) = (op.input("X")?, op.input("Alpha")?, op.output("Out")?);
    let mode = Mode::of(op)?;
    float_kernel!(op, "X", |run, T| {
        let walk = mode.walk(run.dims(x)?, run.dims(alpha)?)?;
        let out = run.set::<T>(&mut out)?;
        apply(&walk, run.get::<T>(x)?, run.get::<T>(alpha)?, out, |x, alpha| slope(x, alpha, x))?;
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, alpha, dout) = (op.input("X")?, op.input("Alpha")?, op.input("Out@GRAD")?);
    let (mut dx, mut dalpha) = (op.maybe_output("X@GRAD"), op.maybe_output("Alpha@GRAD"));
    let mode = Mode::of(op)?;
    float_kernel!(op, "X", |run, T| {
        let walk = mode.walk(run.dims(x)?, run.dims(alpha)?)?;
        let (x, alpha) = (run.get::<T>(x)?, run.get::<T>(alpha)?);
        let dout = run.get::<T>(dout)?;
        if let Some(dx) = &mut dx {
            gather(&walk, 0, x, alpha, dout, run.set(dx)?, slope::<T>);
        }
        if let Some(dalpha) = &mut dalpha {
            gather(&walk, 1, alpha, x, dout, run.set(dalpha)?, |_, x, dout| {
                if x > T::ZERO { T::ZERO } else { x * dout }
            });
        }
    })
}

/// What the function does to `x` and to its gradient alike.
#[inline(always)]
fn slope<T: Real>(x: T, alpha: T, value: T) -> T {
    if x > T::ZERO { value } else { alpha * value }
}
