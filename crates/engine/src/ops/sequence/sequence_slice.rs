//! `sequence_slice`: of each sequence `Length` rows from `Offset` on.

use std::ops::Range;

use super::offsets::{check_gradient, only_level, ranges, row_bytes, rows_of, set_lengths};
use crate::ops::prelude::*;
use crate::ops::shape::given::extend_integers;

pub(super) const DEF: OpDef = OpDef::new("sequence_slice", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Offset"), Slot::one("Length")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Offset", "Length"]).lod_from("X"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    for slot in ["Offset", "Length"] {
        let given = cx.input(slot)?;
        if given.rank() != 2 || same_dim(given.dims[1], 1).is_err() {
            return Err(Error::kernel(format!(
                "`{slot}` must have shape [sequences, 1], not {:?}",
                given.dims
            )));
        }
    }
    let out = rows_of(cx.input("X")?, "X", 1)?;
    cx.set("Out", out);
    Ok(())
}

/// Which rows are taken.
struct Slices {
    x: In,
    offset: In,
    length: In,
    given: [Vec<i64>; 2],
    rows: Vec<Range<usize>>,
}

impl Slices {
    fn new(op: &OpView<'_>) -> Result<Slices> {
        let (offset, length) = (op.input("Offset")?, op.input("Length")?);
        Ok(Slices { x: op.input("X")?, offset, length, given: Default::default(), rows: vec![] })
    }

    /// The rows of each slice in this step.
    fn read(&mut self, run: &Run<'_>) -> Result<&[Range<usize>]> {
        let offsets = only_level(run.tensor(self.x)?, "X")?;
        for (given, input) in self.given.iter_mut().zip([self.offset, self.length]) {
            given.clear();
            extend_integers(given, run.tensor(input)?)?;
        }
        let [starts, lengths] = &self.given;
        let sequences = offsets.len() - 1;
        if starts.len() != sequences || lengths.len() != sequences {
            return Err(Error::kernel(format!(
                "`Offset` and `Length` have {} and {} elements for {sequences} sequences of `X`",
                starts.len(),
                lengths.len()
            )));
        }
        self.rows.clear();
        for (at, range) in ranges(offsets).enumerate() {
            let slice = slice_of(&range, starts[at], lengths[at]).ok_or_else(|| {
                Error::kernel(format!(
                    "sequence {at} of `X` has {} rows, but `Offset` is {} and `Length` {}",
                    range.len(),
                    starts[at],
                    lengths[at]
                ))
            })?;
            self.rows.push(slice);
        }
        Ok(&self.rows)
    }
}

/// The rows of a slice, if they lie in the sequence.
fn slice_of(sequence: &Range<usize>, start: i64, length: i64) -> Option<Range<usize>> {
    let (start, length) = (usize::try_from(start).ok()?, usize::try_from(length).ok()?);
    let end = start.checked_add(length)?;
    (end <= sequence.len()).then(|| sequence.start + start..sequence.start + end)
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mut slices, mut out, mut lod) = (Slices::new(op)?, op.output("Out")?, [Vec::new()]);
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(slices.x)?, run.out(&mut out)?);
        let slices = slices.read(run)?;
        let rows = slices.iter().map(|slice| slice.len()).sum();
        out.resize(x.dtype(), x.dims().with_rows(rows));
        set_lengths(out, &mut lod, slices.iter().map(|slice| slice.len()));
        let (bytes, x, mut rest) = (row_bytes(x), x.as_bytes(), out.as_mut_bytes());
        for slice in slices {
            let (head, tail) = rest.split_at_mut(slice.len() * bytes);
            head.copy_from_slice(&x[slice.start * bytes..slice.end * bytes]);
            rest = tail;
        }
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mut slices, dout) = (Slices::new(op)?, op.input("Out@GRAD")?);
    let mut dx = op.output("X@GRAD")?;
    Ok(Box::new(move |run| {
        let (x, dout, dx) = (run.tensor(slices.x)?, run.tensor(dout)?, run.out(&mut dx)?);
        let slices = slices.read(run)?;
        let (width, rows) =
            (x.dims().tail(1), slices.iter().map(|slice| slice.len()).sum::<usize>());
        check_gradient(dout, "Out@GRAD", rows * width)?;
        dx.resize(dout.dtype(), x.dims());
        let bytes = width * dout.dtype().size();
        let (mut rest, dx) = (dout.as_bytes(), dx.as_mut_bytes());
        dx.fill(0);
        for slice in slices {
            let (head, tail) = rest.split_at(slice.len() * bytes);
            dx[slice.start * bytes..slice.end * bytes].copy_from_slice(head);
            rest = tail;
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn a_slice_beyond_its_sequence_is_refused() {
        let op = Op::new("sequence_slice").input("X", ["x"]).output("Out", ["out"]);
        let op = op.input("Offset", ["offset"]).input("Length", ["length"]);
        let x = Tensor::from_slice([3, 1], &[0f32; 3]).unwrap();
        let x = x.with_lod(&[vec![0, 1, 3]]).unwrap();
        let column = |values: &[i64]| Tensor::from_slice([2, 1], values).unwrap().into();
        let mut values = HashMap::from([("x".to_owned(), x.into())]);
        for (offset, length) in [([0, 1], [1, 2]), ([-1, 0], [1, 1]), ([0, 0], [1, i64::MAX])] {
            values.insert("offset".to_owned(), column(&offset));
            values.insert("length".to_owned(), column(&length));
            let error = run_once(&op, &mut values).unwrap_err().to_string();
            assert!(error.contains("rows, but `Offset` is"), "{error}");
        }
    }
}
