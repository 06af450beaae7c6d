//! `softmax` and `log_softmax`: `exp(X)` over its sum along an axis, and the logarithm of that.

use crate::ops::prelude::*;

pub(super) const SOFTMAX: OpDef = def::<Plain>("softmax");
pub(super) const LOG_SOFTMAX: OpDef = def::<Log>("log_softmax");

const fn def<S: Softmax>(name: &'static str) -> OpDef {
    OpDef::new(name, kernel::<S>)
        .inputs(const { &[Slot::one("X")] })
        .outputs(const { &[Slot::one("Out")] })
        .attrs(const { &[attr::int("axis", -1)] })
        .like(&[("Out", "X")])
        .lod_from("X")
        .split(SplitRule::Fn(split))
        .gradient(
            Gradient::new(&["X"], grad_kernel::<S>)
                .reads(&["Out"])
                .like("Out")
                .formula(formula::<S>),
        )
}

/// The gradient as other ops.
fn formula<S: Softmax>(f: &mut Formula<'_>) -> Result<()> {
    let (out, dout) = (f.input("Out")?, f.input("Out@GRAD")?);
    let axis = f.op().i64("axis")? as i32;
    let dx = if S::LOGARITHM {
        let (exp, sum) = (f.unary("exp", &out), f.sum(&dout, &[axis], true));
        let share = f.mul(&exp, &sum);
        f.sub(&dout, &share)
    } else {
        let product = f.mul(&out, &dout);
        let sum = f.sum(&product, &[axis], true);
        let rest = f.sub(&dout, &sum);
        f.mul(&out, &rest)
    };
    f.give("X@GRAD", &dx);
    Ok(())
}

/// Rows are independent unless they are what the sum is over.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let within_rows = view.inputs[0].axis(view.op.i64("axis").ok()?).ok()? > 0;
    let rows = view.spreads.iter().all(|spread| *spread == Spread::Rows);
    (within_rows && rows).then(|| vec![Spread::Rows])
}

/// One of the two functions, on a vector given row by row (see [`Blocks`]).
trait Softmax: 'static {
    /// Whether the sum is needed as its logarithm.
    const LOGARITHM: bool;
    /// From the shifted input to the output; `sum` is of the exponentials. Elements of `out` hold
    /// `exp(x - top)` at first.
    fn finish<T: Real>(x: T, top: T, exp: T, sum: T) -> T;
    /// What of `(out, dout)` is summed along the axis.
    fn weigh<T: Real>(out: T, dout: T) -> T;
    /// The gradient, given that sum.
    fn slope<T: Real>(out: T, dout: T, sum: T) -> T;
}

struct Plain;

impl Softmax for Plain {
    const LOGARITHM: bool = false;

    #[inline(always)]
    fn finish<T: Real>(_: T, _: T, exp: T, sum: T) -> T {
        exp / sum
    }
    #[inline(always)]
    fn weigh<T: Real>(out: T, dout: T) -> T {
        out * dout
    }
    #[inline(always)]
    fn slope<T: Real>(out: T, dout: T, sum: T) -> T {
        out * (dout - sum)
    }
}

struct Log;

impl Softmax for Log {
    const LOGARITHM: bool = true;

    #[inline(always)]
    fn finish<T: Real>(x: T, top: T, _: T, log_sum: T) -> T {
        x - top - log_sum
    }
    #[inline(always)]
    fn weigh<T: Real>(_: T, dout: T) -> T {
        dout
    }
    #[inline(always)]
    fn slope<T: Real>(out: T, dout: T, sum: T) -> T {
        dout - out.exp() * sum
    }
}

/// A tensor seen as blocks of `len` rows of `width` elements; the axis runs down the rows.
#[derive(Clone, Copy)]
struct Blocks {
    len: usize,
    width: usize,
}

impl Blocks {
    fn of(dims: Dims, axis: i64) -> Result<Blocks> {
        let rank = dims.len() as i64;
        let positive = if axis < 0 { axis + rank } else { axis };
        match usize::try_from(positive) {
            _ if rank == 0 => Ok(Blocks { len: 1, width: 1 }),
            Ok(axis) if axis < dims.len() => {
                Ok(Blocks { len: dims[axis], width: dims.tail(axis + 1) })
            }
            _ => Err(Error::kernel(format!("axis {axis} lies outside shape {dims}"))),
        }
    }

    /// Elements of a block; never 0, so that slices can be cut by it.
    fn size(self) -> usize {
        (self.len * self.width).max(1)
    }
}

fn kernel<S: Softmax>(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, axis) = (op.input("X")?, op.output("Out")?, op.i64("axis")?);
    let mut scratch = Tensor::empty(DType::F32);
    float_kernel!(op, "X", |run, T| {
        let blocks = Blocks::of(run.dims(x)?, axis)?;
        scratch.resize(T::DTYPE, [2 * blocks.width]);
        forward::<S, T>(blocks, run.get(x)?, run.set(&mut out)?, scratch.as_mut_slice()?);
    })
}

fn forward<S: Softmax, T: Real>(blocks: Blocks, x: &[T], out: &mut [T], scratch: &mut [T]) {
    let size = blocks.size();
    let (tops, sums) = scratch.split_at_mut(blocks.width);
    vectorized(
        #[inline(always)]
        || {
            for (x, out) in x.chunks_exact(size).zip(out.chunks_exact_mut(size)) {
                if blocks.width == 1 {
                    row::<S, T>(x, out);
                } else {
                    block::<S, T>(x, out, tops, sums);
                }
            }
        },
    );
}

/// The axis is the last one: one contiguous row.
#[inline(always)]
fn row<S: Softmax, T: Real>(x: &[T], out: &mut [T]) {
    let top = fold_of(x, T::LOWEST, |top, x| if x > top { x } else { top });
    for (out, x) in out.iter_mut().zip(x) {
        *out = (*x - top).exp();
    }
    let sum = sum_of(out, |exp| exp);
    let sum = if S::LOGARITHM { sum.ln() } else { sum };
    for (out, x) in out.iter_mut().zip(x) {
        *out = S::finish(*x, top, *out, sum);
    }
}

/// The axis is an earlier one: neighbours in memory belong to different vectors.
#[inline(always)]
fn block<S: Softmax, T: Real>(x: &[T], out: &mut [T], tops: &mut [T], sums: &mut [T]) {
    let width = tops.len();
    tops.fill(T::LOWEST);
    sums.fill(T::ZERO);
    for x in x.chunks_exact(width) {
        for (top, x) in tops.iter_mut().zip(x) {
            *top = if *x > *top { *x } else { *top };
        }
    }
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        for ((out, x), (sum, top)) in out.iter_mut().zip(x).zip(sums.iter_mut().zip(&*tops)) {
            *out = (*x - *top).exp();
            *sum += *out;
        }
    }
    if S::LOGARITHM {
        sums.iter_mut().for_each(|sum| *sum = sum.ln());
    }
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        for ((out, x), (sum, top)) in out.iter_mut().zip(x).zip(sums.iter().zip(&*tops)) {
            *out = S::finish(*x, *top, *out, *sum);
        }
    }
}

fn grad_kernel<S: Softmax>(op: &OpView<'_>) -> Result<Kernel> {
    let (out, dout, mut dx) = (op.input("Out")?, op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let axis = op.i64("axis")?;
    let mut scratch = Vec::<f64>::new();
    float_kernel!(op, "Out", |run, T| {
        let blocks = Blocks::of(run.dims(out)?, axis)?;
        let (out, dout) = (run.get::<T>(out)?, run.get::<T>(dout)?);
        backward::<S, T>(blocks, out, dout, run.set::<T>(&mut dx)?, &mut scratch);
    })
}

fn backward<S: Softmax, T: Real>(
    blocks: Blocks,
    out: &[T],
    dout: &[T],
    dx: &mut [T],
    scratch: &mut Vec<f64>,
) {
    let (size, width) = (blocks.size(), blocks.width.max(1));
    scratch.resize(width, 0.0);
    let given = out.chunks_exact(size).zip(dout.chunks_exact(size));
    vectorized(
        #[inline(always)]
        || {
            for ((out, dout), dx) in given.zip(dx.chunks_exact_mut(size)) {
                if width == 1 {
                    let sum = sum_of_pairs(out, dout, S::weigh::<T>);
                    for ((dx, out), dout) in dx.iter_mut().zip(out).zip(dout) {
                        *dx = S::slope(*out, *dout, sum);
                    }
                    continue;
                }
                scratch.fill(0.0);
                for (out, dout) in out.chunks_exact(width).zip(dout.chunks_exact(width)) {
                    for ((sum, out), dout) in scratch.iter_mut().zip(out).zip(dout) {
                        *sum += S::weigh(*out, *dout).to_f64();
                    }
                }
                let given = out.chunks_exact(width).zip(dout.chunks_exact(width));
                for ((out, dout), dx) in given.zip(dx.chunks_exact_mut(width)) {
                    for ((dx, out), (dout, sum)) in
                        dx.iter_mut().zip(out).zip(dout.iter().zip(&*scratch))
                    {
                        *dx = S::slope(*out, *dout, T::from_f64(*sum));
                    }
                }
            }
        },
    );
}
