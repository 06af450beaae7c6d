//! `index_sample`: from each row of `X`, the elements that the same row of `Index` names.

use super::positions;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("index_sample", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Index")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::RowWise)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Index"]).second(second::linear));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, index) = (cx.input("X")?, cx.input("Index")?);
    if x.rank() != 2 || index.rank() != 2 || same_dim(x.dims[0], index.dims[0]).is_err() {
        let shapes = format!("`X` {:?} and `Index` {:?}", x.dims, index.dims);
        return Err(Error::kernel(format!("{shapes} must be matrices of as many rows")));
    }
    cx.set("Out", x.with_dims(index.dims.clone()));
    Ok(())
}

fn columns(x: Dims, index: Dims) -> Result<(usize, usize)> {
    match (&*x, &*index) {
        ([rows, width], [same, count]) if rows == same => Ok((*width, *count)),
        _ => Err(Error::kernel(format!("`X` {x} and `Index` {index} differ in their rows"))),
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, index, mut out) = (op.input("X")?, op.input("Index")?, op.output("Out")?);
    let mut found = Vec::new();
    Ok(Box::new(move |run| {
        let (x, index, out) = (run.tensor(x)?, run.tensor(index)?, run.out(&mut out)?);
        let (width, count) = columns(x.dims(), index.dims())?;
        positions::read(&mut found, index, width)?;
        out.resize(x.dtype(), index.dims());
        if width == 0 || count == 0 {
            return Ok(());
        }
        dispatch!(x.dtype(), T in [f32, f64, i32, i64, u8, i8, i16, f16, bf16] => {
            let rows = x.as_slice::<T>()?.chunks_exact(width).zip(found.chunks_exact(count));
            for (out, (x, found)) in out.as_mut_slice::<T>()?.chunks_exact_mut(count).zip(rows) {
                out.iter_mut().zip(found).for_each(|(out, at)| *out = x[*at]);
            }
            Ok(())
        }, else => unreachable!("every element type is listed"))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, index) = (op.input("X")?, op.input("Index")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let mut found = Vec::new();
    Ok(Box::new(move |run| {
        let (dims, index) = (run.dims(x)?, run.tensor(index)?);
        let (dout, dx) = (run.tensor(dout)?, run.out(&mut dx)?);
        let (width, count) = columns(dims, index.dims())?;
        positions::read(&mut found, index, width)?;
        dx.resize(dout.dtype(), dims);
        dx.as_mut_bytes().fill(0);
        if width == 0 || count == 0 {
            return Ok(());
        }
        dispatch!(dout.dtype(), T in [f32, f64, i32, i64] => {
            let rows = dout.as_slice::<T>()?.chunks_exact(count).zip(found.chunks_exact(count));
            for (dx, (dout, found)) in dx.as_mut_slice::<T>()?.chunks_exact_mut(width).zip(rows) {
                dout.iter().zip(found).for_each(|(dout, at)| dx[*at] += *dout);
            }
            Ok(())
        }, else => Err(Error::kernel(format!("cannot add {} elements", dout.dtype()))))
    }))
}
