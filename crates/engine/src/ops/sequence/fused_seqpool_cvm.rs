//! `fused_seqpool_cvm`: for each of several inputs, the sum of every sequence and then `cvm`.
//!
//! An empty sequence gives `pad_value`. The "gradients" of the leading `cvm_offset` columns are
//! those of `CVM`, as `cvm` has it.

use super::offsets::{innermost, ranges};
use crate::ops::prelude::*;
use crate::ops::shape::concat::wanted_outputs;

pub(super) const DEF: OpDef = OpDef::new("fused_seqpool_cvm", kernel)
    .inputs(&[Slot::many("X"), Slot::one("CVM")])
    .outputs(&[Slot::many("Out")])
    .attrs(&[
        attr::str("pooltype", "SUM"),
        attr::float("pad_value", 0.0),
        attr::bool("use_cvm", true),
        attr::int("cvm_offset", 2),
    ])
    .infer(infer)
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "CVM"]));

/// What the attributes say.
#[derive(Clone, Copy)]
struct Columns {
    /// Leading columns that count.
    counters: usize,
    /// Whether they are kept, as logarithms.
    kept: bool,
}

impl Columns {
    fn of(op: &OpView<'_>) -> Result<Columns> {
        let (pool, counters) = (op.string("pooltype")?, op.i64("cvm_offset")?);
        if !pool.eq_ignore_ascii_case("SUM") {
            return Err(Error::kernel(format!("`pooltype` must be SUM, not `{pool}`")));
        }
        let kept = op.bool("use_cvm")?;
        let least = if kept { 2 } else { 1 };
        if counters < least {
            let problem = format!("`cvm_offset` must be {least} or more, not {counters}");
            return Err(Error::kernel(problem));
        }
        Ok(Columns { counters: counters as usize, kept })
    }

    /// The columns of the output of an input with `width`.
    fn left(self, width: usize) -> Result<usize> {
        let dropped = if self.kept { 0 } else { self.counters };
        if width < self.counters {
            return Err(Error::kernel(format!(
                "`X` has {width} columns, fewer than the {} of `cvm_offset`",
                self.counters
            )));
        }
        Ok(width - dropped)
    }
}

/// How many sequences there are is known only when the batch is there.
fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (inputs, columns, cvm) = (cx.inputs("X"), Columns::of(cx.op())?, cx.input("CVM")?);
    let counters = columns.counters as i64;
    if cvm.rank() != 2 || same_dim(cvm.dims[1], counters).is_err() {
        return Err(Error::kernel(format!(
            "`CVM` must have `cvm_offset` {counters} columns, but its shape is {:?}",
            cvm.dims
        )));
    }
    let mut outs = Vec::with_capacity(inputs.len());
    for x in inputs {
        let [_, width] = x.dims[..] else {
            return Err(Error::kernel(format!("`X` must have rank 2, not shape {:?}", x.dims)));
        };
        let width = match usize::try_from(width) {
            Ok(width) => columns.left(width)? as i64,
            Err(_) => -1,
        };
        outs.push(Meta { lod_level: 0, ..x.with_dims([-1, width]) });
    }
    if outs.len() != cx.op().op.outputs_of("Out").len() {
        return Err(Error::kernel("`Out` must have one variable for each of `X`"));
    }
    cx.set_each("Out", outs);
    Ok(())
}

/// Where the sequences of `x` begin and end; without sequences each row is one.
fn offsets_of<'a>(x: &'a Tensor, rows: &'a mut Vec<usize>) -> Result<&'a [usize]> {
    if !x.lod().is_empty() {
        return innermost(x, "X");
    }
    rows.clear();
    rows.extend(0..=x.rows());
    Ok(rows)
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, mut outputs) = (op.inputs("X"), op.outputs("Out"));
    let (columns, pad, mut rows) = (Columns::of(op)?, op.f64("pad_value")?, Vec::new());
    let (mut sums, typed) = (Tensor::empty(DType::F32), inputs.first().copied());
    Ok(Box::new(move |run| {
        let Some(typed) = typed else { return Ok(()) };
        let dtype = run.tensor(typed)?.dtype();
        for (input, output) in inputs.iter().zip(&mut outputs) {
            let (x, out) = (run.tensor(*input)?, run.out(output)?);
            let (offsets, width) = (offsets_of(x, &mut rows)?, x.dims()[1]);
            out.resize(dtype, [offsets.len() - 1, columns.left(width)?]);
            out.set_lod(&[]);
            sums.resize(dtype, [width]);
            dispatch!(dtype, T in [f32, f64] => {
                let (sums, x) = (sums.as_mut_slice::<T>()?, x.as_slice::<T>()?);
                let kept = columns.left(width)?.max(1);
                let places = out.as_mut_slice::<T>()?.chunks_exact_mut(kept);
                for (range, out) in ranges(offsets).zip(places) {
                    pool(&x[range.start * width..range.end * width], pad as T, sums);
                    columns.apply(sums, out);
                }
                Ok(())
            }, else => Err(not_float("X", dtype)))?;
        }
        Ok(())
    }))
}

/// The sum of `rows`; `pad` where there are none.
fn pool<T: Real>(rows: &[T], pad: T, sums: &mut [T]) {
    sums.fill(if rows.is_empty() { pad } else { T::ZERO });
    for row in rows.chunks_exact(sums.len().max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x);
    }
}

impl Columns {
    /// Writes what `cvm` makes of a row.
    fn apply<T: Real>(self, row: &[T], out: &mut [T]) {
        out.copy_from_slice(&row[row.len() - out.len()..]);
        if self.kept {
            out[0] = (row[0] + T::ONE).ln();
            out[1] = (row[1] + T::ONE).ln() - out[0];
        }
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, cvm, douts) = (op.inputs("X"), op.input("CVM")?, op.inputs("Out@GRAD"));
    let (mut outputs, columns, mut rows) =
        (wanted_outputs(op, "X@GRAD"), Columns::of(op)?, Vec::new());
    if inputs.len() != outputs.len() || inputs.len() != douts.len() {
        return Err(Error::kernel(
            "`X@GRAD` and `Out@GRAD` must each have a variable for each `X`",
        ));
    }
    float_kernel!(op, "CVM", |run, T| {
        let counters = run.get::<T>(cvm)?;
        for ((input, dout), output) in inputs.iter().zip(&douts).zip(&mut outputs) {
            let Some(output) = output else { continue };
            let (x, dout) = (run.tensor(*input)?, run.get::<T>(*dout)?);
            let (offsets, width) = (offsets_of(x, &mut rows)?, x.dims()[1]);
            let (samples, kept) = (offsets.len() - 1, columns.left(width)?);
            if counters.len() != samples * columns.counters || dout.len() != samples * kept {
                return Err(Error::kernel(format!(
                    "`X` has {samples} sequences, for which `CVM` has {} and `Out@GRAD` {} \
                     elements",
                    counters.len(),
                    dout.len()
                )));
            }
            let dx = run.out(output)?;
            dx.resize(T::DTYPE, x.dims());
            dx.set_lod(x.lod());
            let dx = dx.as_mut_slice::<T>()?;
            for (sample, range) in ranges(offsets).enumerate() {
                let dout = &dout[sample * kept..][..kept];
                let counters = &counters[sample * columns.counters..][..columns.counters];
                for dx in dx[range.start * width..range.end * width].chunks_exact_mut(width) {
                    dx[width - kept..].copy_from_slice(dout);
                    dx[..columns.counters].copy_from_slice(counters);
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    const X: [f32; 12] = [1.0, 0.0, 0.5, 2.0, 1.0, -0.5, 3.0, 2.0, 1.5, 0.0, 0.0, 2.5];

    fn values() -> HashMap<String, Value> {
        let ragged = Tensor::from_slice([4, 3], &X).unwrap().with_lod(&[vec![0, 2, 2, 4]]).unwrap();
        let plain = Tensor::from_slice([3, 3], &X[..9]).unwrap();
        let cvm = Tensor::from_slice([3, 2], &[1f32, 0.0, 1.0, 1.0, 1.0, 0.0]).unwrap();
        HashMap::from([
            ("a".to_owned(), ragged.into()),
            ("b".to_owned(), plain.into()),
            ("cvm".to_owned(), cvm.into()),
        ])
    }

    fn op(use_cvm: bool) -> Op {
        let op = Op::new("fused_seqpool_cvm").input("X", ["a", "b"]).input("CVM", ["cvm"]);
        op.output("Out", ["out_a", "out_b"]).attr("use_cvm", use_cvm).attr("pad_value", 0.25f32)
    }

    /// The same by `sequence_pool` and `cvm`.
    fn in_two_steps(name: &str, use_cvm: bool, values: &mut HashMap<String, Value>) -> Vec<f32> {
        let (mut input, pooled, out) = (name.to_owned(), format!("pooled_{name}"), "out_ref");
        if name == "a" {
            let pool = Op::new("sequence_pool").input("X", [name]).output("Out", [&pooled]);
            let pool = pool.attr("pooltype", "SUM").attr("pad_value", 0.25f32);
            run_once(&pool, values).unwrap();
            input = pooled;
        }
        let cvm = Op::new("cvm").input("X", [input]).input("CVM", ["cvm"]).output("Y", [out]);
        run_once(&cvm.attr("use_cvm", use_cvm), values).unwrap();
        values[out].tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
    }

    #[test]
    fn it_is_the_pool_and_cvm_of_each_input() {
        for use_cvm in [true, false] {
            let mut values = values();
            run_once(&op(use_cvm), &mut values).unwrap();
            for name in ["a", "b"] {
                let expected = in_two_steps(name, use_cvm, &mut values);
                let out = values[&format!("out_{name}")].tensor().unwrap();
                assert_eq!(out.as_slice::<f32>().unwrap(), expected);
                assert!(out.lod().is_empty());
            }
        }
    }

    #[test]
    fn gradients_reach_every_row_and_carry_the_counters() {
        let mut values = values();
        run_once(&op(false), &mut values).unwrap();
        for name in ["out_a", "out_b"] {
            let dout = Tensor::from_slice([3, 1], &[10f32, 20.0, 30.0]).unwrap();
            values.insert(format!("{name}@GRAD"), dout.into());
        }
        run_gradient(&op(false), &mut values);
        let of = |name: &str| values[name].tensor().unwrap().as_slice::<f32>().unwrap().to_vec();
        let rows = [[1.0, 0.0, 10.0], [1.0, 0.0, 10.0], [1.0, 0.0, 30.0], [1.0, 0.0, 30.0]];
        assert_eq!(of("a@GRAD"), rows.concat());
        let rows = [[1.0, 0.0, 10.0], [1.0, 1.0, 20.0], [1.0, 0.0, 30.0]];
        assert_eq!(of("b@GRAD"), rows.concat());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |op: Op| run_once(&op, &mut values()).unwrap_err().to_string();
        let error = refused(op(true).attr("pooltype", "MAX"));
        assert!(error.contains("`pooltype` must be SUM"), "{error}");
        let error = refused(op(true).attr("cvm_offset", 3));
        assert!(error.contains("`CVM` must have `cvm_offset` 3 columns"), "{error}");
        let error = refused(op(true).attr("cvm_offset", 1));
        assert!(error.contains("`cvm_offset` must be 2 or more"), "{error}");
    }
}
