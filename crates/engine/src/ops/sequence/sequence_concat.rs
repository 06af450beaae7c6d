//! `sequence_concat`: sequence after sequence of several inputs, the first ones of all of them as
//! the first sequence, and so on.

use std::ops::Range;

use super::offsets::{check_gradient, only_level, row_bytes, rows_of, set_lengths};
use crate::ops::prelude::*;
use crate::ops::shape::concat::wanted_outputs;

pub(super) const DEF: OpDef = OpDef::new("sequence_concat", kernel)
    .inputs(&[Slot::many("X")])
    .outputs(&[Slot::one("Out")])
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X"]));

/// How many rows there are is known only when the batch is there.
fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let inputs = cx.inputs("X");
    let first = *inputs.first().ok_or_else(|| Error::kernel("`X` is empty"))?;
    let out = rows_of(first, "X", 1)?;
    for input in &inputs {
        let same = |(a, b): (&i64, &i64)| same_dim(*a, *b).is_ok();
        let fits = input.rank() == first.rank()
            && input.dims[1..].iter().zip(&first.dims[1..]).all(same)
            && input.dtype == first.dtype;
        if !fits {
            return Err(Error::kernel(format!(
                "all of `X` must have the same entries, but the shapes are {:?} and {:?} of {} \
                 and {}",
                first.dims, input.dims, first.dtype, input.dtype
            )));
        }
    }
    cx.set("Out", out);
    Ok(())
}

/// Fills `parts` with the rows to take one after the other: which input, and which of its rows.
fn read(parts: &mut Vec<(usize, Range<usize>)>, tensors: &[&Tensor]) -> Result<()> {
    parts.clear();
    let Some(first) = tensors.first() else { return Err(Error::kernel("`X` is empty")) };
    let sequences = only_level(first, "X")?.len() - 1;
    for tensor in tensors {
        let count = only_level(tensor, "X")?.len() - 1;
        if count != sequences || row_bytes(tensor) != row_bytes(first) {
            return Err(Error::kernel(format!(
                "all of `X` must have as many sequences of equal entries, but there are \
                 {sequences} of {} and {count} of {}",
                first.dims(),
                tensor.dims()
            )));
        }
    }
    for sequence in 0..sequences {
        for (input, tensor) in tensors.iter().enumerate() {
            let offsets = only_level(tensor, "X")?;
            parts.push((input, offsets[sequence]..offsets[sequence + 1]));
        }
    }
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, mut out) = (op.inputs("X"), op.output("Out")?);
    let (mut parts, mut lod) = (Vec::new(), [Vec::new()]);
    Ok(Box::new(move |run| {
        let tensors = inputs.iter().map(|input| run.tensor(*input)).collect::<Result<Vec<_>>>()?;
        read(&mut parts, &tensors)?;
        let (first, out) = (tensors[0], run.out(&mut out)?);
        let rows = parts.iter().map(|(_, range)| range.len()).sum();
        out.resize(first.dtype(), first.dims().with_rows(rows));
        let lengths = parts.chunks_exact(tensors.len());
        let lengths = lengths.map(|parts| parts.iter().map(|(_, range)| range.len()).sum());
        set_lengths(out, &mut lod, lengths);
        let (bytes, mut rest) = (row_bytes(first), out.as_mut_bytes());
        for (input, range) in &parts {
            let (head, tail) = rest.split_at_mut(range.len() * bytes);
            head.copy_from_slice(&tensors[*input].as_bytes()[range.start * bytes..][..head.len()]);
            rest = tail;
        }
        Ok(())
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, dout) = (op.inputs("X"), op.input("Out@GRAD")?);
    let mut outputs = wanted_outputs(op, "X@GRAD");
    if inputs.len() != outputs.len() {
        return Err(Error::kernel("`X@GRAD` must have one variable for each of `X`"));
    }
    let mut parts = Vec::new();
    Ok(Box::new(move |run| {
        let tensors = inputs.iter().map(|input| run.tensor(*input)).collect::<Result<Vec<_>>>()?;
        read(&mut parts, &tensors)?;
        let dout = run.tensor(dout)?;
        check_gradient(dout, "Out@GRAD", tensors.iter().map(|x| x.numel()).sum())?;
        let bytes = tensors[0].dims().tail(1) * dout.dtype().size();
        for (output, x) in outputs.iter_mut().zip(&tensors) {
            if let Some(output) = output {
                let dx = run.out(output)?;
                dx.resize(dout.dtype(), x.dims());
                dx.set_lod(x.lod());
            }
        }
        let mut rest = dout.as_bytes();
        for (input, range) in &parts {
            let (head, tail) = rest.split_at(range.len() * bytes);
            if let Some(output) = &mut outputs[*input] {
                let dx = &mut run.out(output)?.as_mut_bytes()[range.start * bytes..];
                dx[..head.len()].copy_from_slice(head);
            }
            rest = tail;
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn inputs_with_different_numbers_of_sequences_are_refused() {
        let op = Op::new("sequence_concat").input("X", ["a", "b"]).output("Out", ["out"]);
        let x = Tensor::from_slice([3, 1], &[0f32; 3]).unwrap();
        let a = x.clone().with_lod(&[vec![0, 1, 3]]).unwrap();
        let b = x.with_lod(&[vec![0, 3]]).unwrap();
        let mut values = HashMap::from([("a".to_owned(), a.into()), ("b".to_owned(), b.into())]);
        let error = run_once(&op, &mut values).unwrap_err().to_string();
        assert!(error.contains("as many sequences"), "{error}");
    }
}
