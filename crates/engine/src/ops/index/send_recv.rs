//! `graph_send_recv`: along each edge of a graph, the row of `X` at its source goes to its
//! destination, where rows are added up, averaged, or compared.

use super::positions;
use crate::ops::prelude::*;
use crate::ops::shape::given::Given;

const ATTRS: &[AttrSpec] = &[attr::str("reduce_op", "SUM"), attr::longs("out_size", &[0])];

pub(super) const DEF: OpDef = OpDef::new("graph_send_recv", kernel)
    .inputs(&[
        Slot::one("X"),
        Slot::one("Src_index"),
        Slot::one("Dst_index"),
        Slot::maybe("Out_size"),
    ])
    .outputs(&[Slot::one("Out"), Slot::maybe("Dst_count")])
    .attrs(ATTRS)
    .infer(infer)
    .gradient(
        Gradient::new(&["X"], grad_kernel)
            .reads(&["X", "Src_index", "Dst_index", "Out", "Dst_count"])
            .optional(&["Out", "Dst_count"]),
    );

/// What becomes of the rows that meet.
#[derive(Clone, Copy, PartialEq)]
enum Reduce {
    Sum,
    Mean,
    Max,
    Min,
}

impl Reduce {
    fn of(op: &OpView<'_>) -> Result<Reduce> {
        match op.string("reduce_op")?.as_str() {
            "SUM" => Ok(Reduce::Sum),
            "MEAN" => Ok(Reduce::Mean),
            "MAX" => Ok(Reduce::Max),
            "MIN" => Ok(Reduce::Min),
            other => Err(Error::kernel(format!(
                "`reduce_op` must be SUM, MEAN, MAX or MIN, not `{other}`"
            ))),
        }
    }

    /// A row that has one already joined by the next.
    fn join<T: Number>(self, row: &mut [T], next: &[T]) {
        let pairs = row.iter_mut().zip(next);
        match self {
            Reduce::Sum | Reduce::Mean => pairs.for_each(|(row, x)| *row = row.plus(*x)),
            Reduce::Max => pairs.for_each(|(row, x)| *row = if *x > *row { *x } else { *row }),
            Reduce::Min => pairs.for_each(|(row, x)| *row = if *x < *row { *x } else { *row }),
        }
    }
}

fn rows(op: &OpView<'_>) -> Result<Given> {
    Given::new(op, "out_size", "Out_size", "Out_size")
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let Some(first) = x.dims.first() else {
        return Err(Error::kernel("`X` must have rows, but is a scalar"));
    };
    let rows = match rows(cx.op())?.known() {
        Some([rows, ..]) if *rows > 0 => *rows,
        Some(_) => *first,
        None => -1,
    };
    let mut out = x.clone();
    out.dims[0] = rows;
    out.lod_level = 0;
    cx.set("Out", out);
    cx.set("Dst_count", Meta::new(DType::I32, [rows]));
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, mut count_out) =
        (op.input("X")?, op.output("Out")?, op.maybe_output("Dst_count"));
    let (source, target) = (op.input("Src_index")?, op.input("Dst_index")?);
    let (reduce, mut given) = (Reduce::of(op)?, rows(op)?);
    let (mut from, mut to, mut counts) = (Vec::new(), Vec::new(), Vec::<i32>::new());
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        let wanted = given.read(run)?.first().copied().unwrap_or(0);
        let rows = if wanted > 0 { wanted as usize } else { x.rows() };
        positions::read(&mut from, run.tensor(source)?, x.rows())?;
        positions::read(&mut to, run.tensor(target)?, rows)?;
        check_edges(&from, &to)?;
        out.resize(x.dtype(), x.dims().with_rows(rows));
        out.as_mut_bytes().fill(0);
        counts.clear();
        counts.resize(rows, 0);
        let width = x.dims().tail(1);
        dispatch!(x.dtype(), T in [f32, f64, i32, i64] => {
            let (x, out) = (x.as_slice::<T>()?, out.as_mut_slice::<T>()?);
            for (from, to) in from.iter().zip(&to) {
                let next = &x[from * width..(from + 1) * width];
                let row = &mut out[to * width..(to + 1) * width];
                if counts[*to] == 0 { row.copy_from_slice(next) } else { reduce.join(row, next) }
                counts[*to] += 1;
            }
            if reduce == Reduce::Mean {
                for (row, count) in out.chunks_exact_mut(width.max(1)).zip(&counts) {
                    let count = T::from_f64(f64::from((*count).max(1)));
                    row.iter_mut().for_each(|out| *out = out.over(count));
                }
            }
        }, else => return Err(Error::kernel(format!("cannot add {} elements", x.dtype()))));
        if let Some(count_out) = &mut count_out {
            let count_out = run.out(count_out)?;
            count_out.resize(DType::I32, [rows]);
            count_out.as_mut_slice::<i32>()?.copy_from_slice(&counts);
        }
        Ok(())
    }))
}

fn check_edges(from: &[usize], to: &[usize]) -> Result<()> {
    if from.len() == to.len() {
        return Ok(());
    }
    let problem = format!("`Src_index` has {}, `Dst_index` {} elements", from.len(), to.len());
    Err(Error::kernel(format!("{problem}: an edge needs one of each")))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, out, dout) = (op.input("X")?, op.maybe_input("Out"), op.input("Out@GRAD")?);
    let (source, target) = (op.input("Src_index")?, op.input("Dst_index")?);
    let (mut dx, reduce) = (op.output("X@GRAD")?, Reduce::of(op)?);
    let (mut from, mut to, mut counts) = (Vec::new(), Vec::new(), Vec::<i32>::new());
    Ok(Box::new(move |run| {
        let (x, dout, dx) = (run.tensor(x)?, run.tensor(dout)?, run.out(&mut dx)?);
        positions::read(&mut from, run.tensor(source)?, x.rows())?;
        positions::read(&mut to, run.tensor(target)?, dout.rows())?;
        check_edges(&from, &to)?;
        dx.resize(dout.dtype(), x.dims());
        dx.as_mut_bytes().fill(0);
        counts.clear();
        counts.resize(dout.rows(), 0);
        to.iter().for_each(|to| counts[*to] += 1);
        let width = x.dims().tail(1);
        let row = |at: usize| at * width..(at + 1) * width;
        if dout.dims().tail(1) != width {
            return Err(Error::kernel("`X` and `Out@GRAD` differ in the width of their rows"));
        }
        dispatch!(dout.dtype(), T in [f32, f64, i32, i64] => {
            let (x, dout, dx) = (x.as_slice::<T>()?, dout.as_slice::<T>()?, dx.as_mut_slice::<T>()?);
            let out = match (reduce, out) {
                (Reduce::Max | Reduce::Min, Some(out)) => Some(run.get::<T>(out)?),
                (Reduce::Max | Reduce::Min, None) => {
                    return Err(Error::kernel("input slot `Out` is empty"));
                }
                _ => None,
            };
            for (from, to) in from.iter().zip(&to) {
                let pairs = dx[row(*from)].iter_mut().zip(&dout[row(*to)]);
                if let Some(out) = out {
                    // Every row that reached the extreme takes the whole gradient.
                    let values = x[row(*from)].iter().zip(&out[row(*to)]);
                    for ((dx, dout), (x, out)) in pairs.zip(values) {
                        *dx = if *x == *out { dx.plus(*dout) } else { *dx };
                    }
                } else {
                    let mean = reduce == Reduce::Mean;
                    let count = T::from_f64(if mean { f64::from(counts[*to]) } else { 1.0 });
                    pairs.for_each(|(dx, dout)| *dx = dx.plus(dout.over(count)));
                }
            }
            Ok(())
        }, else => Err(Error::kernel(format!("cannot add {} elements", dout.dtype()))))
    }))
}
