//! `mul`: the product of two tensors seen as matrices; what `fc` is made of.

use crate::gemm::{Order, gemm};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("mul", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Y")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("x_num_col_dims", 1), attr::int("y_num_col_dims", 1)])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::batch(&["X"]))
    .gradient(Gradient::new(&["X", "Y"], grad_kernel).reads(&["X", "Y"]));

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
    let (x, y, out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    let (xc, yc) = (op.i64("x_num_col_dims")? as usize, op.i64("y_num_col_dims")? as usize);
    float_kernel!(op, "X", |run, T| {
        let ((m, k), (_, n)) = (run.dims(x)?.matrix(xc), run.dims(y)?.matrix(yc));
        gemm::<T>(m, n, k, run.set(out)?, run.get(x)?, Order::Plain, run.get(y)?, Order::Plain);
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, dout) = (op.input("X")?, op.input("Y")?, op.input("Out@GRAD")?);
    let (dx, dy) = (op.maybe_output("X@GRAD"), op.maybe_output("Y@GRAD"));
    let (xc, yc) = (op.i64("x_num_col_dims")? as usize, op.i64("y_num_col_dims")? as usize);
    float_kernel!(op, "X", |run, T| {
        let ((m, k), (_, n)) = (run.dims(x)?.matrix(xc), run.dims(y)?.matrix(yc));
        let dout = run.get::<T>(dout)?;
        if let Some(dx) = dx {
            gemm::<T>(m, k, n, run.set(dx)?, dout, Order::Plain, run.get(y)?, Order::Transposed);
        }
        if let Some(dy) = dy {
            gemm::<T>(k, n, m, run.set(dy)?, run.get(x)?, Order::Transposed, dout, Order::Plain);
        }
    })
}
