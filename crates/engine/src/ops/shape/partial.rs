//! `partial_concat` and `partial_sum`: the same columns of several matrices, `length` from
//! `start_index` on, side by side or added up.

use std::ops::Range;

use super::concat::wanted_outputs;
use crate::ops::prelude::*;

pub(super) const CONCAT: OpDef = OpDef::new("partial_concat", concat)
    .inputs(INPUTS)
    .outputs(OUTPUTS)
    .attrs(ATTRS)
    .infer(|cx: &mut Infer<'_>| infer(cx, true))
    .lod_from("X")
    .split(SplitRule::RowWise)
    .gradient(Gradient::new(&["X"], concat_grad).reads(&["X"]).lod_from("X"));

pub(super) const SUM: OpDef = OpDef::new("partial_sum", sum)
    .inputs(INPUTS)
    .outputs(OUTPUTS)
    .attrs(ATTRS)
    .infer(|cx: &mut Infer<'_>| infer(cx, false))
    .lod_from("X")
    .split(SplitRule::RowWise)
    .gradient(Gradient::new(&["X"], sum_grad).reads(&["X"]).lod_from("X"));

const INPUTS: &[Slot] = &[Slot::many("X")];
const OUTPUTS: &[Slot] = &[Slot::one("Out")];
const ATTRS: &[AttrSpec] = &[attr::int("start_index", 0), attr::int("length", -1)];

fn infer(cx: &mut Infer<'_>, side_by_side: bool) -> Result<()> {
    let inputs = cx.inputs("X");
    let first = *inputs.first().ok_or_else(|| Error::kernel("`X` is empty"))?;
    for input in &inputs {
        let fits = |(a, b): (&i64, &i64)| same_dim(*a, *b).is_ok();
        let alike = input.rank() == 2 && first.rank() == 2;
        if !alike || input.dtype != first.dtype || !input.dims.iter().zip(&first.dims).all(fits) {
            return Err(Error::kernel(format!(
                "all of `X` must be matrices of one shape and type, not {:?} and {:?}",
                first.dims, input.dims
            )));
        }
    }
    let width = match usize::try_from(first.dims[1]) {
        Ok(width) => Columns::of(cx.op())?.of_width(width)?.len() as i64,
        Err(_) => -1,
    };
    let count = if side_by_side { inputs.len() as i64 } else { 1 };
    let out = first.with_dims([first.dims[0], if width < 0 { -1 } else { width * count }]);
    cx.set("Out", out);
    Ok(())
}

/// Which columns are taken.
#[derive(Clone, Copy)]
struct Columns {
    start: i64,
    length: i64,
}

impl Columns {
    fn of(op: &OpView<'_>) -> Result<Columns> {
        Ok(Columns { start: op.i64("start_index")?, length: op.i64("length")? })
    }

    /// Those of a matrix of `width` columns.
    fn of_width(self, width: usize) -> Result<Range<usize>> {
        let Columns { start, length } = self;
        let from = if start < 0 { start + width as i64 } else { start };
        let end = if length < 0 { width as i64 } else { from.saturating_add(length) };
        if 0 <= from && from <= end && end <= width as i64 {
            return Ok(from as usize..end as usize);
        }
        Err(Error::kernel(format!(
            "`start_index` {start} and `length` {length} do not lie inside of {width} columns"
        )))
    }

    /// Those of the first of `inputs`, which all others must look like.
    fn read(self, run: &Run<'_>, inputs: &[In]) -> Result<Range<usize>> {
        let first = run.tensor(inputs[0])?;
        for input in inputs {
            let input = run.tensor(*input)?;
            if input.dims() != first.dims() || input.dtype() != first.dtype() {
                return Err(Error::kernel(format!(
                    "all of `X` must be of one shape and type, not {} and {}",
                    first.dims(),
                    input.dims()
                )));
            }
        }
        self.of_width(first.dims()[1])
    }
}

fn some_inputs(op: &OpView<'_>) -> Result<Vec<In>> {
    let inputs = op.inputs("X");
    if inputs.is_empty() { Err(Error::kernel("`X` is empty")) } else { Ok(inputs) }
}

fn concat(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, columns, mut out) = (some_inputs(op)?, Columns::of(op)?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let (columns, out) = (columns.read(run, &inputs)?, run.out(&mut out)?);
        let first = run.tensor(inputs[0])?;
        let (rows, size) = (first.rows(), first.dtype().size());
        out.resize(first.dtype(), [rows, columns.len() * inputs.len()]);
        let (given, width) = (first.dims()[1] * size, columns.len() * size);
        let row = width * inputs.len();
        for (at, input) in inputs.iter().enumerate() {
            let input = run.tensor(*input)?.as_bytes();
            let places = out.as_mut_bytes().chunks_exact_mut(row.max(1));
            for (place, x) in places.zip(input.chunks_exact(given.max(1))) {
                place[at * width..][..width].copy_from_slice(&x[columns.start * size..][..width]);
            }
        }
        Ok(())
    }))
}

fn concat_grad(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, columns, dout) = (some_inputs(op)?, Columns::of(op)?, op.input("Out@GRAD")?);
    let mut outputs = wanted_outputs(op, "X@GRAD");
    Ok(Box::new(move |run| {
        let (columns, dout) = (columns.read(run, &inputs)?, run.tensor(dout)?);
        let (dims, size) = (run.dims(inputs[0])?, dout.dtype().size());
        if *dout.dims() != [dims[0], columns.len() * inputs.len()] {
            return Err(Error::kernel(format!("`Out@GRAD` is {}, unlike `Out`", dout.dims())));
        }
        let row = dout.dims()[1] * size;
        for (at, output) in outputs.iter_mut().enumerate() {
            let Some(output) = output else { continue };
            let dx = run.out(output)?;
            dx.resize(dout.dtype(), dims);
            put_columns(dx.as_mut_bytes(), dims[1] * size, &columns, size, |row_of, place| {
                let from = row_of * row + at * place.len();
                place.copy_from_slice(&dout.as_bytes()[from..][..place.len()]);
            });
        }
        Ok(())
    }))
}

/// Fills rows of `row` bytes with zeros, and lets `fill` write their `columns`, of `size` bytes.
fn put_columns(
    rows: &mut [u8],
    row: usize,
    columns: &Range<usize>,
    size: usize,
    mut fill: impl FnMut(usize, &mut [u8]),
) {
    rows.fill(0);
    for (at, row) in rows.chunks_exact_mut(row.max(1)).enumerate() {
        fill(at, &mut row[columns.start * size..columns.end * size]);
    }
}

fn sum(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, columns, mut out) = (some_inputs(op)?, Columns::of(op)?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let (columns, out) = (columns.read(run, &inputs)?, run.out(&mut out)?);
        let first = run.tensor(inputs[0])?;
        let given = first.dims()[1].max(1);
        out.resize(first.dtype(), [first.rows(), columns.len()]);
        dispatch!(first.dtype(), T in [f32, f64, i32, i64] => {
            let out = out.as_mut_slice::<T>()?;
            out.fill(T::ZERO);
            for input in &inputs {
                let rows = run.get::<T>(*input)?.chunks_exact(given);
                for (out, x) in out.chunks_exact_mut(columns.len().max(1)).zip(rows) {
                    let pairs = out.iter_mut().zip(&x[columns.clone()]);
                    pairs.for_each(|(out, x)| *out = out.plus(*x));
                }
            }
            Ok(())
        }, else => Err(Error::kernel(format!("there are no sums of {} elements", first.dtype()))))
    }))
}

fn sum_grad(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, columns, dout) = (some_inputs(op)?, Columns::of(op)?, op.input("Out@GRAD")?);
    let mut outputs = wanted_outputs(op, "X@GRAD");
    Ok(Box::new(move |run| {
        let (columns, dout) = (columns.read(run, &inputs)?, run.tensor(dout)?);
        let (dims, size) = (run.dims(inputs[0])?, dout.dtype().size());
        if *dout.dims() != [dims[0], columns.len()] {
            return Err(Error::kernel(format!("`Out@GRAD` is {}, unlike `Out`", dout.dims())));
        }
        for output in outputs.iter_mut().flatten() {
            let dx = run.out(output)?;
            dx.resize(dout.dtype(), dims);
            put_columns(dx.as_mut_bytes(), dims[1] * size, &columns, size, |row, place| {
                place.copy_from_slice(&dout.as_bytes()[row * place.len()..][..place.len()]);
            });
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn columns_that_are_not_there_are_refused() {
        let x: Value = Tensor::from_slice([2, 3], &[0f32; 6]).unwrap().into();
        let mut values = HashMap::from([("x".to_owned(), x)]);
        for kind in ["partial_concat", "partial_sum"] {
            let op = Op::new(kind).input("X", ["x"]).output("Out", ["out"]);
            for (start, length) in [(4, -1), (-4, 1), (2, 2)] {
                let op = op.clone().attr("start_index", start).attr("length", length);
                let error = run_once(&op, &mut values).unwrap_err().to_string();
                assert!(error.contains("do not lie inside of 3 columns"), "{error}");
            }
        }
    }
}
