//! `rank_attention`: each sample times matrices that its own rank and those of its companions
//! choose, added up.
//!
//! A row of `RankOffset` holds the rank of the sample, then a pair for each of `MaxRank`
//! companions: its rank, and the row of `X` that it is. Ranks count from 1; one of 0 is nobody's,
//! and counts nothing. `RankParam` has a matrix for each pair of ranks. As in Paddle, the op has no
//! gradient of `X`.

use crate::gemm::{Order, gemm_add};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("rank_attention", kernel)
    .inputs(&[Slot::one("X"), Slot::one("RankOffset"), Slot::one("RankParam")])
    .outputs(&[Slot::maybe("InputHelp"), Slot::one("Out"), Slot::maybe("InsRank")])
    .attrs(&[attr::int("MaxRank", 3), attr::int("MaxSize", 0)])
    .infer(infer)
    .gradient(
        Gradient::new(&["RankParam"], grad_kernel)
            .reads(&["X", "RankOffset", "RankParam"])
            .accepts(&["InputHelp", "InsRank"])
            .from(&["Out"]),
    );

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, offset, param) = (cx.input("X")?, cx.input("RankOffset")?, cx.input("RankParam")?);
    let ([rows, width], [offset_rows, columns], [param_rows, out]) =
        (&x.dims[..], &offset.dims[..], &param.dims[..])
    else {
        return Err(Error::kernel(format!(
            "`X`, `RankOffset` and `RankParam` must be matrices, but their shapes are {:?}, {:?} \
             and {:?}",
            x.dims, offset.dims, param.dims
        )));
    };
    let ranks = max_rank(cx.op())? as i64;
    let known = *width >= 0;
    let fits = same_dim(*rows, *offset_rows).is_ok()
        && same_dim(*columns, 2 * ranks + 1).is_ok()
        && (!known || same_dim(*param_rows, ranks * ranks * width).is_ok());
    if !fits {
        return Err(Error::kernel(format!(
            "with `MaxRank` {ranks} and `X` {:?}, `RankOffset` must be [rows, {}] and `RankParam` \
             [{ranks} * {ranks} * columns, out], not {:?} and {:?}",
            x.dims,
            2 * ranks + 1,
            offset.dims,
            param.dims
        )));
    }
    let rows_of_help = if *rows < 0 { -1 } else { (*rows).max(cx.op().i64("MaxSize")?) };
    let (out, help) = (
        x.with_dims([*rows, *out]),
        x.with_dims([rows_of_help, if known { ranks * width } else { -1 }]),
    );
    cx.set("Out", out);
    cx.set("InsRank", help.with_dims([rows_of_help, 1]));
    cx.set("InputHelp", help);
    Ok(())
}

fn max_rank(op: &OpView<'_>) -> Result<usize> {
    let ranks = op.i64("MaxRank")?;
    let possible = usize::try_from(ranks).ok().filter(|ranks| (1..1 << 15).contains(ranks));
    possible.ok_or_else(|| Error::kernel(format!("`MaxRank` must be 1 or more, not {ranks}")))
}

/// A product of one row and one matrix.
struct Term {
    /// The sample that it counts in.
    sample: usize,
    /// The place of the companion among those of the sample.
    place: usize,
    /// The row of `X`.
    row: usize,
    /// The matrix of `RankParam`.
    matrix: usize,
}

/// Fills `terms` with all products of this step.
fn read(terms: &mut Vec<Term>, offset: &Tensor, ranks: usize, rows: usize) -> Result<()> {
    terms.clear();
    let table = offset.as_slice::<i32>()?;
    let rank = |given: i32| match usize::try_from(given) {
        Ok(0) => Ok(None),
        Ok(rank) if rank <= ranks => Ok(Some(rank - 1)),
        _ if given < 0 => Ok(None),
        _ => {
            Err(Error::kernel(format!("`RankOffset` holds rank {given}, above `MaxRank` {ranks}")))
        }
    };
    for (sample, row) in table.chunks_exact(2 * ranks + 1).enumerate() {
        let Some(own) = rank(row[0])? else { continue };
        for (place, pair) in row[1..].chunks_exact(2).enumerate() {
            let Some(other) = rank(pair[0])? else { continue };
            let companion = usize::try_from(pair[1]).ok().filter(|at| *at < rows);
            let row = companion.ok_or_else(|| {
                let at = pair[1];
                Error::kernel(format!("`RankOffset` names row {at} of `X`, which has {rows}"))
            })?;
            terms.push(Term { sample, place, row, matrix: own * ranks + other });
        }
    }
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, offset, param) = (op.input("X")?, op.input("RankOffset")?, op.input("RankParam")?);
    let (mut out, ranks, mut terms) = (op.output("Out")?, max_rank(op)?, Vec::new());
    let (mut help, mut own) = (op.maybe_output("InputHelp"), op.maybe_output("InsRank"));
    float_kernel!(op, "X", |run, T| {
        let (dims, width) = (run.dims(x)?, run.dims(param)?[1]);
        let (rows, depth) = (dims[0], dims[1]);
        let offset = run.tensor(offset)?;
        read(&mut terms, offset, ranks, rows)?;
        let (x, param) = (run.get::<T>(x)?, run.get::<T>(param)?);
        let out = run.set::<T>(&mut out)?;
        out.fill(0.0);
        for Term { sample, row, matrix, .. } in &terms {
            let out = &mut out[sample * width..][..width];
            let x = &x[row * depth..][..depth];
            let param = &param[matrix * depth * width..][..depth * width];
            gemm_add(1, width, depth, out, x, Order::Plain, param, Order::Plain);
        }
        if let Some(help) = &mut help {
            let help = run.set::<T>(help)?;
            help.fill(0.0);
            for Term { sample, place, row, .. } in &terms {
                let place = &mut help[(sample * ranks + place) * depth..][..depth];
                place.copy_from_slice(&x[row * depth..][..depth]);
            }
        }
        if let Some(own) = &mut own {
            let own = run.set::<T>(own)?;
            own.fill(-1.0);
            let given = offset.as_slice::<i32>()?.chunks_exact(2 * ranks + 1);
            own.iter_mut().zip(given).for_each(|(own, row)| *own = row[0] as T);
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, offset, dout) = (op.input("X")?, op.input("RankOffset")?, op.input("Out@GRAD")?);
    let (mut dparam, ranks, mut terms) = (op.output("RankParam@GRAD")?, max_rank(op)?, Vec::new());
    float_kernel!(op, "X", |run, T| {
        let (dims, width) = (run.dims(x)?, run.dims(dout)?.tail(1));
        let (rows, depth) = (dims[0], dims[1]);
        read(&mut terms, run.tensor(offset)?, ranks, rows)?;
        let (x, dout) = (run.get::<T>(x)?, run.get::<T>(dout)?);
        let dparam = run.set::<T>(&mut dparam)?;
        if dout.len() != rows * width || dparam.len() != ranks * ranks * depth * width {
            return Err(Error::kernel("`Out@GRAD` has not the shape of `Out`"));
        }
        dparam.fill(0.0);
        for Term { sample, row, matrix, .. } in &terms {
            let dparam = &mut dparam[matrix * depth * width..][..depth * width];
            let (x, dout) = (&x[row * depth..][..depth], &dout[sample * width..][..width]);
            gemm_add(depth, width, 1, dparam, x, Order::Plain, dout, Order::Plain);
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    /// Three samples, two ranks: the second has no companion of rank 2, the third none at all.
    const OFFSETS: [i32; 15] = [1, 1, 0, 2, 1, 2, 1, 0, 0, -1, 0, 1, 0, 2, 1];

    fn values() -> HashMap<String, Value> {
        let numbers = |count: usize, by: f64| -> Vec<f64> {
            (0..count).map(|i| (i as f64 * by + 1.0).sin()).collect()
        };
        let tensor = |dims: [usize; 2], by: f64| -> Value {
            Tensor::from_slice(dims, &numbers(dims[0] * dims[1], by)).unwrap().into()
        };
        HashMap::from([
            ("x".to_owned(), tensor([3, 2], 0.7)),
            ("offset".to_owned(), Tensor::from_slice([3, 5], &OFFSETS).unwrap().into()),
            ("param".to_owned(), tensor([8, 3], 1.3)),
            ("out@GRAD".to_owned(), tensor([3, 3], 0.9)),
        ])
    }

    fn op() -> Op {
        let op = Op::new("rank_attention").input("X", ["x"]).input("RankOffset", ["offset"]);
        let op = op.input("RankParam", ["param"]).output("Out", ["out"]);
        op.output("InputHelp", ["help"]).output("InsRank", ["ranks"]).attr("MaxRank", 2)
    }

    #[test]
    fn each_sample_adds_up_what_its_ranks_choose() {
        let mut values = values();
        run_once(&op(), &mut values).unwrap();
        let of = |name: &str| values[name].tensor().unwrap().to_f64_vec();
        let (x, param, out) = (of("x"), of("param"), of("out"));
        let product = |row: usize, matrix: usize, column: usize| -> f64 {
            (0..2).map(|k| x[row * 2 + k] * param[(matrix * 2 + k) * 3 + column]).sum()
        };
        for column in 0..3 {
            let first = product(0, 0, column) + product(1, 1, column);
            assert!((out[column] - first).abs() < 1e-12);
            assert!((out[3 + column] - product(0, 2, column)).abs() < 1e-12);
            assert_eq!(out[6 + column], 0.0);
        }
        assert_eq!(of("ranks"), [1.0, 2.0, 0.0]);
        assert_eq!(of("help")[..4], x[..4]);
    }

    #[test]
    fn the_gradient_agrees_with_finite_differences() {
        gradients_agree_with_differences(&op(), &values(), &["param"]);
    }

    #[test]
    fn ranks_and_rows_that_are_not_there_are_refused() {
        for (at, bad, what) in [(0, 3, "rank 3"), (1, 7, "rank 7"), (2, 3, "row 3"), (4, -1, "row")]
        {
            let (mut values, mut offsets) = (values(), OFFSETS);
            offsets[at] = bad;
            values
                .insert("offset".to_owned(), Tensor::from_slice([3, 5], &offsets).unwrap().into());
            let error = run_once(&op(), &mut values).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
