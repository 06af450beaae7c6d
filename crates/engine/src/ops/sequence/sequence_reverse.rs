//! `sequence_reverse`: the rows of each sequence in reverse order.

use super::offsets::{check_gradient, only_level, ranges, row_bytes};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("sequence_reverse", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Y")])
    .infer(infer)
    .lod_from("X")
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X"]).lod_from("X"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    if cx.input("X")?.rank() == 0 {
        return Err(Error::kernel("`X` must have rows, but is a scalar"));
    }
    cx.like(&[("Y", "X")])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut y) = (op.input("X")?, op.output("Y")?);
    Ok(Box::new(move |run| {
        let (x, y) = (run.tensor(x)?, run.out(&mut y)?);
        y.resize(x.dtype(), x.dims());
        reverse(only_level(x, "X")?, row_bytes(x), x.as_bytes(), y.as_mut_bytes());
        Ok(())
    }))
}

fn reverse(offsets: &[usize], bytes: usize, from: &[u8], to: &mut [u8]) {
    if bytes == 0 {
        return;
    }
    for range in ranges(offsets) {
        let rows = range.start * bytes..range.end * bytes;
        let reversed = from[rows.clone()].chunks_exact(bytes).rev();
        let places = to[rows].chunks_exact_mut(bytes);
        places.zip(reversed).for_each(|(place, row)| place.copy_from_slice(row));
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dy, mut dx) = (op.input("X")?, op.input("Y@GRAD")?, op.output("X@GRAD")?);
    Ok(Box::new(move |run| {
        let (x, dy, dx) = (run.tensor(x)?, run.tensor(dy)?, run.out(&mut dx)?);
        check_gradient(dy, "Y@GRAD", x.numel())?;
        dx.resize(dy.dtype(), x.dims());
        let bytes = x.dims().tail(1) * dy.dtype().size();
        reverse(only_level(x, "X")?, bytes, dy.as_bytes(), dx.as_mut_bytes());
        Ok(())
    }))
}
