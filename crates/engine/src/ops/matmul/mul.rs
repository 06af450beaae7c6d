//! `mul`: the product of two tensors seen as matrices; what `fc` is made of.

use crate::gemm::{Matrix, Order, Product};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("mul", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Y")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("x_num_col_dims", 1), attr::int("y_num_col_dims", 1)])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::batch(&["X"]))
    .gradient(Gradient::new(&["X", "Y"], grad_kernel).reads(&["X", "Y"]).second(second::product));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (cx.input("X")?, cx.input("Y")?);
    let (xc, yc) =
        (cx.op().i64("x_num_col_dims")? as usize, cx.op().i64("y_num_col_dims")? as usize);
    if xc == 0 || xc >= x.rank() || yc == 0 || yc >= y.rank() {
        return Err(Error::kernel(format!(
            "cannot see shapes {:?} and {:?} as matrices split at {xc} and {yc}",
            x.dims, y.dims
        )));
    }
    let product = |dims: &[i64]| if dims.contains(&-1) { -1 } else { dims.iter().product() };
    same_dim(product(&x.dims[xc..]), product(&y.dims[..yc])).map_err(|_| {
        Error::kernel(format!(
            "`X` {:?} has {} columns, but `Y` {:?} has {} rows",
            x.dims,
            product(&x.dims[xc..]),
            y.dims,
            product(&y.dims[..yc])
        ))
    })?;
    let out = x.with_dims([&x.dims[..xc], &y.dims[yc..]].concat());
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    let (xc, yc) = (op.i64("x_num_col_dims")? as usize, op.i64("y_num_col_dims")? as usize);
    float_kernel!(op, "X", |run, T| {
        let ((m, k), (_, n)) = (run.dims(x)?.matrix(xc), run.dims(y)?.matrix(yc));
        let out = run.set(&mut out)?;
        let (x, y) = ((run.get(x)?, Order::Plain), (run.get(y)?, Order::Plain));
        T::multiply(Product::new([m, n, k], out, x, y).half(run.rounds_factors));
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, dout) = (op.input("X")?, op.input("Y")?, op.input("Out@GRAD")?);
    let (mut dx, mut dy) = (op.maybe_output("X@GRAD"), op.maybe_output("Y@GRAD"));
    let (xc, yc) = (op.i64("x_num_col_dims")? as usize, op.i64("y_num_col_dims")? as usize);
    float_kernel!(op, "X", |run, T| {
        let ((m, k), (_, n)) = (run.dims(x)?.matrix(xc), run.dims(y)?.matrix(yc));
        let dout = run.get::<T>(dout)?;
        if let Some(dx) = &mut dx {
            let (dout, y) = ((dout, Order::Plain), (run.get(y)?, Order::Transposed));
            let product = Product::new([m, k, n], run.set(dx)?, dout, y);
            T::multiply(product.half(run.rounds_factors));
        }
        if let Some(dy) = &mut dy {
            let (x, dout) = ((run.get(x)?, Order::Transposed), (dout, Order::Plain));
            let product = Product::new([k, n, m], run.set(dy)?, x, dout);
            T::multiply(product.half(run.rounds_factors));
        }
    })
}
