//! `sequence_pad`: sequences of different lengths become rows of one length, filled up with
//! `PadValue`, which is one number or a whole entry.

use super::offsets::{check_gradient, only_level, ranges, row_bytes};
use crate::ops::prelude::*;
use crate::ops::shape::dims::ranked;

/// The `padded_length` that means: as long as the longest.
const LONGEST: i64 = -1;

pub(super) const DEF: OpDef = OpDef::new("sequence_pad", kernel)
    .inputs(&[Slot::one("X"), Slot::one("PadValue")])
    .outputs(&[Slot::one("Out"), Slot::one("Length")])
    .attrs(&[attr::int("padded_length", LONGEST as i32)])
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X"]).lod_from("X"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, padded) = (cx.input("X")?, cx.op().i64("padded_length")?);
    let [_, rest @ ..] = x.dims.as_slice() else {
        return Err(Error::kernel("`X` must have rows, but is a scalar"));
    };
    if rest.is_empty() {
        return Err(Error::kernel(format!("`X` must have rank 2 or more, not shape {:?}", x.dims)));
    }
    if padded < LONGEST {
        return Err(Error::kernel(format!(
            "`padded_length` must be a length, or -1 for that of the longest, not {padded}"
        )));
    }
    let mut out = x.with_dims(ranked([&[-1, padded], rest].concat())?);
    out.lod_level = 0;
    cx.set("Out", out);
    cx.set("Length", Meta::new(DType::I64, [-1]));
    Ok(())
}

/// The length of all sequences after padding.
fn steps(padded: i64, offsets: &[usize]) -> Result<usize> {
    let longest = ranges(offsets).map(|range| range.len()).max().unwrap_or(0);
    if padded == LONGEST {
        return Ok(longest);
    }
    if (padded as usize) < longest {
        return Err(Error::kernel(format!(
            "`padded_length` is {padded}, but a sequence of `X` has {longest} entries"
        )));
    }
    Ok(padded as usize)
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, pad, padded) = (op.input("X")?, op.input("PadValue")?, op.i64("padded_length")?);
    let (mut out, mut length) = (op.output("Out")?, op.output("Length")?);
    Ok(Box::new(move |run| {
        let (x, pad, out) = (run.tensor(x)?, run.tensor(pad)?, run.out(&mut out)?);
        let offsets = only_level(x, "X")?;
        let (steps, bytes) = (steps(padded, offsets)?, row_bytes(x));
        let mut dims = [0; MAX_RANK];
        let rank = x.dims().len() + 1;
        dims[..2].copy_from_slice(&[offsets.len() - 1, steps]);
        dims[2..rank].copy_from_slice(&x.dims()[1..]);
        out.resize(x.dtype(), Dims::new(&dims[..rank]));
        out.set_lod(&[]);
        let filling = pad.as_bytes();
        if pad.dtype() != x.dtype() || !(pad.numel() == 1 || filling.len() == bytes) {
            let row = Dims::new(&x.dims()[1..]);
            return Err(Error::kernel(format!(
                "`PadValue` must be one number or an entry of shape {row}, of {}, not {} {}",
                x.dtype(),
                pad.dtype(),
                pad.dims()
            )));
        }
        let (x, out) = (x.as_bytes(), out.as_mut_bytes());
        let sequences = out.chunks_exact_mut((steps * bytes).max(1));
        for (range, out) in ranges(offsets).zip(sequences) {
            let (given, rest) = out.split_at_mut(range.len() * bytes);
            given.copy_from_slice(&x[range.start * bytes..range.end * bytes]);
            let places = rest.chunks_exact_mut(filling.len().max(1));
            places.for_each(|place| place.copy_from_slice(filling));
        }
        let length = run.out(&mut length)?;
        length.resize(DType::I64, [offsets.len() - 1]);
        let lengths = length.as_mut_slice::<i64>()?.iter_mut();
        lengths.zip(ranges(offsets)).for_each(|(length, range)| *length = range.len() as i64);
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, dout, mut dx) = (op.input("X")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let padded = op.i64("padded_length")?;
    Ok(Box::new(move |run| {
        let (x, dout, dx) = (run.tensor(x)?, run.tensor(dout)?, run.out(&mut dx)?);
        let offsets = only_level(x, "X")?;
        let (steps, bytes) = (steps(padded, offsets)?, row_bytes(x));
        check_gradient(dout, "Out@GRAD", (offsets.len() - 1) * steps * x.dims().tail(1))?;
        dx.resize(dout.dtype(), x.dims());
        let (dout, dx) = (dout.as_bytes(), dx.as_mut_bytes());
        for (at, range) in ranges(offsets).enumerate() {
            let from = &dout[at * steps * bytes..][..range.len() * bytes];
            dx[range.start * bytes..range.end * bytes].copy_from_slice(from);
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn a_length_below_the_longest_is_refused() {
        let op = Op::new("sequence_pad").input("X", ["x"]).input("PadValue", ["pad"]);
        let op = op.output("Out", ["out"]).output("Length", ["length"]).attr("padded_length", 2);
        let x = Tensor::from_slice([4, 1], &[0f32; 4]).unwrap();
        let x = x.with_lod(&[vec![0, 1, 4]]).unwrap();
        let pad = Tensor::from_slice([1], &[0f32]).unwrap();
        let mut values =
            HashMap::from([("x".to_owned(), x.into()), ("pad".to_owned(), pad.into())]);
        let error = run_once(&op, &mut values).unwrap_err().to_string();
        assert!(error.contains("`padded_length` is 2, but a sequence of `X` has 3"), "{error}");
        let pad = Tensor::from_slice([2], &[0f32; 2]).unwrap();
        values.insert("pad".to_owned(), pad.into());
        let error = run_once(&op.attr("padded_length", -1), &mut values).unwrap_err().to_string();
        assert!(error.contains("`PadValue` must be one number or an entry"), "{error}");
    }
}
