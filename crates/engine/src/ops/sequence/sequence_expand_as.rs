//! `sequence_expand_as`: repeats each row of `X` as often as the sequence of `Y` has entries.

use super::offsets::{check_gradient, only_level, ranges, row_bytes, rows_of};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("sequence_expand_as", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Y")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .lod_from("Y")
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Y"]).lod_from("X"));

/// How often rows repeat is known only when the batch is there.
fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let out = rows_of(cx.input("X")?, "X", 1)?;
    cx.set("Out", out);
    Ok(())
}

/// The offsets of `y`, one sequence for each row of `x`.
fn counts<'a>(x: &Tensor, y: &'a Tensor) -> Result<&'a [usize]> {
    let offsets = only_level(y, "Y")?;
    if x.rows() == offsets.len() - 1 {
        return Ok(offsets);
    }
    let (rows, sequences) = (x.rows(), offsets.len() - 1);
    Err(Error::kernel(format!("`X` has {rows} rows, but `Y` has {sequences} sequences")))
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let (x, y, out) = (run.tensor(x)?, run.tensor(y)?, run.out(&mut out)?);
        let offsets = counts(x, y)?;
        out.resize(x.dtype(), x.dims().with_rows(y.rows()));
        out.set_lod(y.lod());
        let bytes = row_bytes(x).max(1);
        let (x, out) = (x.as_bytes(), out.as_mut_bytes());
        for (range, row) in ranges(offsets).zip(x.chunks_exact(bytes)) {
            let places = out[range.start * bytes..range.end * bytes].chunks_exact_mut(bytes);
            places.for_each(|place| place.copy_from_slice(row));
        }
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y) = (op.input("X")?, op.input("Y")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    float_kernel!(op, "X", |run, T| {
        let (x, y) = (run.tensor(x)?, run.tensor(y)?);
        let (offsets, width) = (counts(x, y)?, x.dims().tail(1).max(1));
        check_gradient(run.tensor(dout)?, "Out@GRAD", y.rows() * x.dims().tail(1))?;
        let (dout, dx) = (run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        dx.fill(0.0);
        for (range, dx) in ranges(offsets).zip(dx.chunks_exact_mut(width)) {
            for dout in dout[range.start * width..range.end * width].chunks_exact(width) {
                dx.iter_mut().zip(dout).for_each(|(dx, dout)| *dx += dout);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn rows_and_sequences_must_be_as_many() {
        let op = Op::new("sequence_expand_as").input("X", ["x"]).input("Y", ["y"]);
        let x = Tensor::from_slice([3, 1], &[0f32; 3]).unwrap();
        let y = x.clone().with_lod(&[vec![0, 1, 3]]).unwrap();
        let mut values = HashMap::from([("x".to_owned(), x.into()), ("y".to_owned(), y.into())]);
        let error = run_once(&op.output("Out", ["out"]), &mut values).unwrap_err().to_string();
        assert!(error.contains("`X` has 3 rows, but `Y` has 2 sequences"), "{error}");
    }
}
