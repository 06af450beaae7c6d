//! `sequence_unpad`: of each row the first entries, as many as `Length` says, one sequence each.

use super::offsets::{check_gradient, set_lengths};
use crate::ops::prelude::*;
use crate::ops::shape::given::extend_integers;

pub(super) const DEF: OpDef = OpDef::new("sequence_unpad", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Length")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Length"]));

/// How long the sequences are is known only when the batch is there.
fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, length) = (cx.input("X")?, cx.input("Length")?);
    let [rows, _, entry @ ..] = x.dims.as_slice() else {
        return Err(Error::kernel(format!("`X` must have rank 2 or more, not shape {:?}", x.dims)));
    };
    if length.rank() != 1 || same_dim(length.dims[0], *rows).is_err() {
        return Err(Error::kernel(format!(
            "`Length` must be a vector with an element for each row of `X`, but their shapes are \
             {:?} and {:?}",
            length.dims, x.dims
        )));
    }
    let entry: &[i64] = if entry.is_empty() { &[1] } else { entry };
    cx.set("Out", Meta { lod_level: 1, ..x.with_dims([&[-1], entry].concat()) });
    Ok(())
}

/// Fills `lengths` with those of the sequences in rows of `steps` entries.
fn read(lengths: &mut Vec<i64>, tensor: &Tensor, x: &Tensor) -> Result<()> {
    lengths.clear();
    extend_integers(lengths, tensor)?;
    let (rows, steps) = (x.rows(), x.dims()[1]);
    if lengths.len() != rows {
        let count = lengths.len();
        return Err(Error::kernel(format!("`Length` has {count} elements for {rows} rows of `X`")));
    }
    match lengths.iter().find(|length| !(0..=steps as i64).contains(length)) {
        None => Ok(()),
        Some(bad) => Err(Error::kernel(format!(
            "`Length` holds {bad}, but rows of `X` have {steps} entries"
        ))),
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, length, mut out) = (op.input("X")?, op.input("Length")?, op.output("Out")?);
    let (mut lengths, mut lod) = (Vec::new(), [Vec::new()]);
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        read(&mut lengths, run.tensor(length)?, x)?;
        let rows = lengths.iter().sum::<i64>() as usize;
        out.resize(x.dtype(), entry_dims(x).with_rows(rows));
        set_lengths(out, &mut lod, lengths.iter().map(|length| *length as usize));
        let (bytes, steps) = (x.dims().tail(2) * x.dtype().size(), x.dims()[1]);
        let (x, mut rest) = (x.as_bytes(), out.as_mut_bytes());
        for (row, length) in lengths.iter().enumerate() {
            let (head, tail) = rest.split_at_mut(*length as usize * bytes);
            head.copy_from_slice(&x[row * steps * bytes..][..head.len()]);
            rest = tail;
        }
        Ok(())
    }))
}

/// Rows of entries; numbers make a column.
fn entry_dims(x: &Tensor) -> Dims {
    if x.dims().len() == 2 { Dims::new(&[1, 1]) } else { Dims::new(&x.dims()[1..]) }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, length) = (op.input("X")?, op.input("Length")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let mut lengths = Vec::new();
    Ok(Box::new(move |run| {
        let (x, dout, dx) = (run.tensor(x)?, run.tensor(dout)?, run.out(&mut dx)?);
        read(&mut lengths, run.tensor(length)?, x)?;
        let entries = lengths.iter().sum::<i64>() as usize;
        check_gradient(dout, "Out@GRAD", entries * x.dims().tail(2))?;
        dx.resize(dout.dtype(), x.dims());
        let (bytes, steps) = (x.dims().tail(2) * dout.dtype().size(), x.dims()[1]);
        let (mut rest, dx) = (dout.as_bytes(), dx.as_mut_bytes());
        for (dx, length) in dx.chunks_exact_mut((steps * bytes).max(1)).zip(&lengths) {
            let (head, tail) = rest.split_at(*length as usize * bytes);
            let (given, padding) = dx.split_at_mut(head.len());
            given.copy_from_slice(head);
            padding.fill(0);
            rest = tail;
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn a_length_beyond_the_row_is_refused() {
        let op = Op::new("sequence_unpad").input("X", ["x"]).input("Length", ["length"]);
        let x = Tensor::from_slice([2, 2], &[0f32; 4]).unwrap();
        let length = Tensor::from_slice([2], &[1i64, 3]).unwrap();
        let mut values =
            HashMap::from([("x".to_owned(), x.into()), ("length".to_owned(), length.into())]);
        let error = run_once(&op.output("Out", ["out"]), &mut values).unwrap_err().to_string();
        assert!(error.contains("`Length` holds 3, but rows of `X` have 2 entries"), "{error}");
    }
}
