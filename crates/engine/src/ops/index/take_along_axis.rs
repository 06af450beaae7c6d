//! `take_along_axis`: from each lane of `Input` along an axis, the elements that the same lane of
//! `Index` names.

use super::positions;
use crate::ops::prelude::*;
use crate::ops::shape::dims::axis_in;

pub(super) const DEF: OpDef = OpDef::new("take_along_axis", kernel)
    .inputs(&[Slot::one("Input"), Slot::one("Index")])
    .outputs(&[Slot::one("Result")])
    .attrs(&[attr::required("Axis", AttrKind::Int)])
    .infer(infer)
    .split(SplitRule::Fn(split))
    .gradient(
        Gradient::new(&["Input"], grad_kernel).reads(&["Input", "Index"]).second(second::linear),
    );

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (input, index) = (cx.input("Input")?, cx.input("Index")?);
    let axis = axis_in(cx.op().i64("Axis")?, input.rank())?;
    let mut pairs = input.dims.iter().zip(&index.dims).enumerate();
    let fits = pairs.all(|(at, (a, b))| at == axis || same_dim(*a, *b).is_ok());
    if input.rank() != index.rank() || !fits {
        return Err(Error::kernel(format!(
            "`Input` {:?} and `Index` {:?} may differ in axis {axis} only",
            input.dims, index.dims
        )));
    }
    let mut out = input.with_dims(index.dims.clone());
    out.lod_level = 0;
    cx.set("Result", out);
    Ok(())
}

/// Row by row, unless the elements are taken along the batch.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let axis = axis_in(view.op.i64("Axis").ok()?, view.meta("Input")?.rank()).ok()?;
    if axis > 0 { SplitRule::RowWise.apply(view) } else { None }
}

/// Lanes along `axis`: how long they are in `Input` and in `Index`, and how far elements lie apart.
fn lanes(input: Dims, index: Dims, axis: i64) -> Result<(usize, usize, usize)> {
    let axis = axis_in(axis, input.len())?;
    let rest = |dims: &Dims| (dims[..axis].iter().product::<usize>(), dims.tail(axis + 1));
    if input.len() != index.len() || rest(&input) != rest(&index) {
        let problem = format!("`Input` {input} and `Index` {index} may differ in axis {axis} only");
        return Err(Error::kernel(problem));
    }
    Ok((input[axis], index[axis], input.tail(axis + 1)))
}

/// Where in `Input` element `at` of `Index` points to.
#[inline(always)]
fn source(at: usize, position: usize, (len, count, inner): (usize, usize, usize)) -> usize {
    (at / (count * inner) * len + position) * inner + at % inner
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, index) = (op.input("Input")?, op.input("Index")?);
    let (mut out, axis) = (op.output("Result")?, op.i64("Axis")?);
    let mut found = Vec::new();
    Ok(Box::new(move |run| {
        let (input, index, out) = (run.tensor(input)?, run.tensor(index)?, run.out(&mut out)?);
        let lanes = lanes(input.dims(), index.dims(), axis)?;
        positions::read(&mut found, index, lanes.0)?;
        out.resize(input.dtype(), index.dims());
        dispatch!(input.dtype(), T in [f32, f64, i32, i64, u8, i8, i16, f16, bf16] => {
            let (input, out) = (input.as_slice::<T>()?, out.as_mut_slice::<T>()?);
            for (at, (out, position)) in out.iter_mut().zip(&found).enumerate() {
                *out = input[source(at, *position, lanes)];
            }
            Ok(())
        }, else => unreachable!("every element type is listed"))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, index) = (op.input("Input")?, op.input("Index")?);
    let (dout, mut dx) = (op.input("Result@GRAD")?, op.output("Input@GRAD")?);
    let (axis, mut found) = (op.i64("Axis")?, Vec::new());
    Ok(Box::new(move |run| {
        let (dims, index) = (run.dims(input)?, run.tensor(index)?);
        let (dout, dx) = (run.tensor(dout)?, run.out(&mut dx)?);
        let lanes = lanes(dims, index.dims(), axis)?;
        positions::read(&mut found, index, lanes.0)?;
        dx.resize(dout.dtype(), dims);
        dx.as_mut_bytes().fill(0);
        dispatch!(dout.dtype(), T in [f32, f64, i32, i64] => {
            let (dout, dx) = (dout.as_slice::<T>()?, dx.as_mut_slice::<T>()?);
            for (at, (dout, position)) in dout.iter().zip(&found).enumerate() {
                let dx = &mut dx[source(at, *position, lanes)];
                *dx = dx.plus(*dout);
            }
            Ok(())
        }, else => Err(Error::kernel(format!("cannot add {} elements", dout.dtype()))))
    }))
}
