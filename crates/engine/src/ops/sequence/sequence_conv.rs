//! `sequence_conv`: each row of a sequence with its neighbours, `contextLength` from
//! `contextStart` on, times a matrix; zeros stand for neighbours beyond the ends.

use super::offsets::{check_gradient, only_level, ranges};
use crate::gemm::{Matrix, Order, gemm};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("sequence_conv", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("PaddingData"), Slot::one("Filter")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::bool("paddingTrainable", false),
        attr::required("contextLength", AttrKind::Int),
        attr::int("contextStart", 0),
        attr::int("contextStride", 1),
    ])
    .infer(infer)
    .lod_from("X")
    .gradient(Gradient::new(&["X", "Filter"], grad_kernel).reads(&["X", "Filter"]).lod_from("X"));

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, filter, length) = (cx.input("X")?, cx.input("Filter")?, Context::of(cx.op())?.length);
    let ([_, width], [rows, columns]) = (&x.dims[..], &filter.dims[..]) else {
        return Err(Error::kernel(format!(
            "`X` and `Filter` must be matrices, but their shapes are {:?} and {:?}",
            x.dims, filter.dims
        )));
    };
    if *width >= 0 && same_dim(*rows, width * length as i64).is_err() {
        return Err(Error::kernel(format!(
            "`Filter` must have {length} * {width} rows, but its shape is {:?}",
            filter.dims
        )));
    }
    let out = x.with_dims([x.dims[0], *columns]);
    cx.set("Out", out);
    Ok(())
}

/// Which neighbours belong to a row.
#[derive(Clone, Copy)]
struct Context {
    start: i64,
    length: usize,
}

impl Context {
    fn of(op: &OpView<'_>) -> Result<Context> {
        let (start, length) = (op.i64("contextStart")?, op.i64("contextLength")?);
        let refuse = |what: String| Err(Error::kernel(what));
        if length < 1 {
            return refuse(format!("`contextLength` must be 1 or more, not {length}"));
        }
        let stride = op.i64("contextStride")?;
        if stride != 1 {
            return refuse(format!("`contextStride` must be 1, not {stride}"));
        }
        if op.bool("paddingTrainable")? {
            return refuse("`paddingTrainable` is not in this version: zeros are padded".into());
        }
        Ok(Context { start, length: length as usize })
    }

    /// Calls `each` with the place of every entry of a row's context, and the row of `X` that
    /// belongs there, if there is one.
    fn visit(self, offsets: &[usize], mut each: impl FnMut(usize, Option<usize>)) {
        for range in ranges(offsets) {
            for row in range.clone() {
                for k in 0..self.length {
                    let at = row as i64 + self.start + k as i64;
                    let inside = (range.start as i64..range.end as i64).contains(&at);
                    each(row * self.length + k, inside.then_some(at as usize));
                }
            }
        }
    }

    /// Fills `columns`, a row of contexts for each row.
    fn gather<T: Real>(self, offsets: &[usize], width: usize, x: &[T], columns: &mut [T]) {
        self.visit(offsets, |place, row| {
            let place = &mut columns[place * width..][..width];
            match row {
                Some(row) => place.copy_from_slice(&x[row * width..][..width]),
                None => place.fill(T::ZERO),
            }
        });
    }
}

/// Memory for the contexts of all rows, used again in each step.
fn scratch<T: Real>(tensor: &mut Tensor, elements: usize) -> Result<&mut [T]> {
    tensor.resize(T::DTYPE, [elements]);
    tensor.as_mut_slice()
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, filter, mut out) = (op.input("X")?, op.input("Filter")?, op.output("Out")?);
    let (context, mut columns) = (Context::of(op)?, Tensor::empty(DType::F32));
    float_kernel!(op, "X", |run, T| {
        let (x, filter) = (run.tensor(x)?, run.tensor(filter)?);
        let (offsets, [rows, width]) = (only_level(x, "X")?, [x.rows(), x.dims()[1]]);
        let depth = checked_depth(filter, width, context)?;
        let columns = scratch::<T>(&mut columns, rows * depth)?;
        context.gather(offsets, width, x.as_slice::<T>()?, columns);
        let (out, filter) = (run.set::<T>(&mut out)?, filter.as_slice::<T>()?);
        let count = filter.len() / depth.max(1);
        gemm(rows, count, depth, out, columns, Order::Plain, filter, Order::Plain);
    })
}

/// The rows of the filter: the width of a context.
fn checked_depth(filter: &Tensor, width: usize, context: Context) -> Result<usize> {
    let depth = width * context.length;
    if filter.rows() == depth {
        return Ok(depth);
    }
    Err(Error::kernel(format!("`Filter` must have {depth} rows, but is {}", filter.dims())))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, filter, dout) = (op.input("X")?, op.input("Filter")?, op.input("Out@GRAD")?);
    let (mut dx, mut dfilter) = (op.maybe_output("X@GRAD"), op.maybe_output("Filter@GRAD"));
    let (context, mut columns) = (Context::of(op)?, Tensor::empty(DType::F32));
    float_kernel!(op, "X", |run, T| {
        let (x, filter) = (run.tensor(x)?, run.tensor(filter)?);
        let (offsets, [rows, width]) = (only_level(x, "X")?, [x.rows(), x.dims()[1]]);
        let depth = checked_depth(filter, width, context)?;
        let count = filter.dims()[1];
        check_gradient(run.tensor(dout)?, "Out@GRAD", rows * count)?;
        let (dout, columns) = (run.get::<T>(dout)?, scratch::<T>(&mut columns, rows * depth)?);
        let (plain, turned) = (Order::Plain, Order::Transposed);
        if let Some(dfilter) = &mut dfilter {
            context.gather(offsets, width, x.as_slice::<T>()?, columns);
            gemm(depth, count, rows, run.set::<T>(dfilter)?, columns, turned, dout, plain);
        }
        if let Some(dx) = &mut dx {
            gemm(rows, depth, count, columns, dout, plain, filter.as_slice::<T>()?, turned);
            spread(context, offsets, width, columns, run.set::<T>(dx)?);
        }
    })
}

/// Adds the gradients of contexts to those of the rows in them.
fn spread<T: Real + Matrix>(
    context: Context,
    offsets: &[usize],
    width: usize,
    columns: &[T],
    dx: &mut [T],
) {
    dx.fill(T::ZERO);
    context.visit(offsets, |place, row| {
        if let Some(row) = row {
            let dx = dx[row * width..][..width].iter_mut();
            dx.zip(&columns[place * width..]).for_each(|(dx, d)| *dx += *d);
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        let op = Op::new("sequence_conv").input("X", ["x"]).input("Filter", ["filter"]);
        let op = op.output("Out", ["out"]).attr("contextLength", 2);
        let x = Tensor::from_slice([2, 2], &[0f32; 4]).unwrap().with_lod(&[vec![0, 2]]).unwrap();
        let filter = Tensor::from_slice([4, 1], &[0f32; 4]).unwrap();
        let mut values =
            HashMap::from([("x".to_owned(), x.into()), ("filter".to_owned(), filter.into())]);
        run_once(&op, &mut values).unwrap();
        for (name, value) in [("contextStride", 2), ("contextLength", 0), ("contextLength", 3)] {
            run_once(&op.clone().attr(name, value), &mut values).unwrap_err();
        }
        let error = run_once(&op.attr("paddingTrainable", true), &mut values).unwrap_err();
        assert!(error.to_string().contains("`paddingTrainable`"), "{error}");
    }
}
