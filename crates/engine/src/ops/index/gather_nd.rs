//! `gather_nd`: each row of `Index` names one slice of `X` by its first coordinates.

use super::gather::add_back;
use super::positions;
use crate::ops::prelude::*;
use crate::ops::shape::dims::{ranked, signed, sized};
use crate::ops::shape::given::extend_integers;

pub(super) const DEF: OpDef = OpDef::new("gather_nd", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Index")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Index"]).second(second::linear));

/// `Index` without its last dimension, then the dimensions of `X` that it does not name.
fn shape(x: &[i64], index: &[i64]) -> Result<Vec<i64>> {
    match index.split_last() {
        Some((depth, rows)) if (0..=x.len() as i64).contains(depth) => {
            ranked([rows, &x[*depth as usize..]].concat())
        }
        _ => Err(Error::kernel(format!("`Index` {index:?} cannot name slices of {x:?}"))),
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, index) = (cx.input("X")?, cx.input("Index")?);
    let mut out = x.with_dims(shape(&x.dims, &index.dims)?);
    out.lod_level = 0;
    cx.set("Out", out);
    Ok(())
}

/// The slices that `index` names, as positions in the list of all slices of their size.
fn slices(
    coordinates: &mut Vec<i64>,
    found: &mut Vec<usize>,
    index: &Tensor,
    x: Dims,
) -> Result<usize> {
    let depth = index.dims().last().copied().unwrap_or(0);
    coordinates.clear();
    found.clear();
    extend_integers(coordinates, index)?;
    if depth == 0 {
        found.resize(index.dims()[..index.dims().len() - 1].iter().product(), 0);
        return Ok(x.numel());
    }
    for row in coordinates.chunks_exact(depth) {
        let mut position = 0;
        for (coordinate, dim) in row.iter().zip(x.iter()) {
            if *coordinate < 0 || *coordinate >= *dim as i64 {
                return Err(positions::outside(*coordinate, *dim));
            }
            position = position * dim + *coordinate as usize;
        }
        found.push(position);
    }
    Ok(x.tail(depth))
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, index, mut out) = (op.input("X")?, op.input("Index")?, op.output("Out")?);
    let (mut coordinates, mut found) = (Vec::new(), Vec::new());
    Ok(Box::new(move |run| {
        let (x, index, out) = (run.tensor(x)?, run.tensor(index)?, run.out(&mut out)?);
        let dims = sized(&shape(&signed(&x.dims()), &signed(&index.dims()))?)?;
        out.resize(x.dtype(), dims);
        let width = slices(&mut coordinates, &mut found, index, x.dims())? * x.dtype().size();
        if width == 0 {
            return Ok(());
        }
        let from = x.as_bytes();
        for (out, at) in out.as_mut_bytes().chunks_exact_mut(width).zip(&found) {
            out.copy_from_slice(&from[at * width..(at + 1) * width]);
        }
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, index) = (op.input("X")?, op.input("Index")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let (mut coordinates, mut found) = (Vec::new(), Vec::new());
    Ok(Box::new(move |run| {
        let (dims, index) = (run.dims(x)?, run.tensor(index)?);
        let (dout, dx) = (run.tensor(dout)?, run.out(&mut dx)?);
        let width = slices(&mut coordinates, &mut found, index, dims)?;
        dx.resize(dout.dtype(), dims);
        dx.as_mut_bytes().fill(0);
        add_back(dx, dout, &found, dims.numel(), width)
    }))
}
