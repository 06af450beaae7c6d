//! `bmm`: the products of two equally high stacks of matrices.

use super::product::{Product, Transposes};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("bmm", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Y")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::batch(&["X", "Y"]))
    .gradient(Gradient::new(&["X", "Y"], grad_kernel).reads(&["X", "Y"]).second(second::product));

const PLAIN: Transposes = Transposes { x: false, y: false };

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (cx.input("X")?, cx.input("Y")?);
    let misfit = || Error::kernel(format!("cannot multiply stacks {:?} and {:?}", x.dims, y.dims));
    let ([xb, m, xk], [yb, yk, n]) = (x.dims.as_slice(), y.dims.as_slice()) else {
        return Err(misfit());
    };
    same_dim(*xk, *yk).map_err(|_| misfit())?;
    let stack = same_dim(*xb, *yb).map_err(|_| misfit())?;
    let out = x.with_dims([stack, *m, *n]);
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    float_kernel!(op, "X", |run, T| {
        let product = Product::new(&run.dims(x)?, &run.dims(y)?, PLAIN)?.half(run.rounds_factors);
        product.forward::<T>(1.0, run.get(x)?, run.get(y)?, run.set(&mut out)?);
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, dout) = (op.input("X")?, op.input("Y")?, op.input("Out@GRAD")?);
    let (mut dx, mut dy) = (op.maybe_output("X@GRAD"), op.maybe_output("Y@GRAD"));
    float_kernel!(op, "X", |run, T| {
        let product = Product::new(&run.dims(x)?, &run.dims(y)?, PLAIN)?.half(run.rounds_factors);
        let dout = run.get::<T>(dout)?;
        if let Some(dx) = &mut dx {
            product.backward_x::<T>(1.0, run.get(y)?, dout, run.set(dx)?);
        }
        if let Some(dy) = &mut dy {
            product.backward_y::<T>(1.0, run.get(x)?, dout, run.set(dy)?);
        }
    })
}
