//! `diag_v2`: the diagonal of a matrix, or the matrix that has a list as its diagonal.

use crate::ops::prelude::*;
use crate::ops::shape::dims::{signed, sized};

pub(super) const DEF: OpDef = OpDef::new("diag_v2", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("offset", 0), attr::float("padding_value", 0.0)])
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X"]));

/// The shape of `Out`; -1 where it is not known.
fn result(x: &[i64], offset: i64) -> Result<Vec<i64>> {
    match *x {
        [-1] => Ok(vec![-1, -1]),
        [] => Ok(vec![1 + offset.abs(); 2]),
        [len] => Ok(vec![len + offset.abs(); 2]),
        [-1, _] | [_, -1] => Ok(vec![-1]),
        [rows, columns] => {
            let room = (rows + offset.min(0)).min(columns - offset.max(0));
            Ok(vec![room.max(0)])
        }
        _ => Err(Error::kernel(format!("`X` must be a list or a matrix, not {x:?}"))),
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let dims = result(&x.dims, cx.op().i64("offset")?)?;
    let mut out = x.with_dims(dims);
    out.lod_level = 0;
    cx.set("Out", out);
    Ok(())
}

/// The positions of a diagonal in a matrix of shape `matrix`.
fn diagonal(matrix: Dims, offset: i64) -> impl Iterator<Item = usize> {
    let (rows, columns) = (matrix[0], matrix[1]);
    let (down, right) = ((-offset).max(0) as usize, offset.max(0) as usize);
    let count = rows.saturating_sub(down).min(columns.saturating_sub(right));
    (0..count).map(move |i| (i + down) * columns + i + right)
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let (offset, padding) = (op.i64("offset")?, op.f64("padding_value")?);
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let dims = x.dims();
        out.resize(x.dtype(), sized(&result(&signed(&dims), offset)?)?);
        let matrix = if dims.len() == 2 { dims } else { out.dims() };
        dispatch!(x.dtype(), T in [f32, f64, i32, i64, u8, i8, i16, f16, bf16] => {
            let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?);
            if dims.len() == 2 {
                out.iter_mut().zip(diagonal(matrix, offset)).for_each(|(out, at)| *out = x[at]);
            } else {
                out.fill(T::from_f64(padding));
                x.iter().zip(diagonal(matrix, offset)).for_each(|(x, at)| out[at] = *x);
            }
            Ok(())
        }, else => unreachable!("every element type is listed"))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dout, mut dx) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let offset = op.i64("offset")?;
    Ok(Box::new(move |run| {
        let (dims, dout, dx) = (run.dims(x)?, run.tensor(dout)?, run.out(&mut dx)?);
        if *sized(&result(&signed(&dims), offset)?)? != *dout.dims() {
            let problem = format!("{} does not fit `X` {dims}", dout.dims());
            return Err(Error::kernel(format!("`Out@GRAD` {problem}")));
        }
        let matrix = if dims.len() == 2 { dims } else { dout.dims() };
        dx.resize(dout.dtype(), dims);
        dispatch!(dout.dtype(), T in [f32, f64, i32, i64] => {
            let (dout, dx) = (dout.as_slice::<T>()?, dx.as_mut_slice::<T>()?);
            if dims.len() == 2 {
                dx.fill(T::default());
                dout.iter().zip(diagonal(matrix, offset)).for_each(|(dout, at)| dx[at] = *dout);
            } else {
                dx.iter_mut().zip(diagonal(matrix, offset)).for_each(|(dx, at)| *dx = dout[at]);
            }
            Ok(())
        }, else => Err(Error::kernel(format!("no gradient of {} elements", dout.dtype()))))
    }))
}
