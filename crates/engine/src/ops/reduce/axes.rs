//! The axes of a reduction, and loops over what is kept and what is reduced.

use crate::ops::elementwise::broadcast_walk::BroadcastWalk;
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::ints("dim", &[0]),
    attr::bool("keep_dim", false),
    attr::bool("reduce_all", false),
    attr::int("in_dtype", -1),
    attr::int("out_dtype", -1),
];

/// The definition of a reduction.
pub(super) const fn def(name: &'static str, kernel: fn(&OpView<'_>) -> Result<Kernel>) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("X")] })
        .outputs(const { &[Slot::one("Out")] })
        .attrs(ATTRS)
        .infer(infer)
        .split(SplitRule::Fn(split_kept))
}

/// The gradient of a sum or mean, which needs only the shape of `X`.
pub(super) const fn gradient(kernel: fn(&OpView<'_>) -> Result<Kernel>) -> Gradient {
    Gradient::new(&["X"], kernel).reads(&["X"]).split(SplitRule::Fn(split_grad))
}

/// A gradient that needs `X` and `Out`.
pub(super) const fn gradient_from_both(kernel: fn(&OpView<'_>) -> Result<Kernel>) -> Gradient {
    Gradient::new(&["X"], kernel).reads(&["X", "Out"]).split(SplitRule::Fn(split_kept_grad))
}

/// Which axes an op reduces, as its attributes say.
#[derive(Clone, Debug)]
pub(super) struct Axes {
    dims: Vec<i64>,
    all: bool,
}

impl Axes {
    pub(super) fn of(op: &OpView<'_>) -> Result<Axes> {
        Axes::named(op, "dim")
    }

    /// Those that attribute `attr` lists.
    pub(super) fn named(op: &OpView<'_>, attr: &str) -> Result<Axes> {
        let dims = op.longs(attr)?;
        let all = op.bool("reduce_all")? || dims.is_empty();
        Ok(Axes { dims, all })
    }

    /// For each axis of a tensor of rank `rank`, whether it is reduced.
    pub(super) fn reduced(&self, rank: usize) -> Result<[bool; MAX_RANK]> {
        let mut reduced = [self.all; MAX_RANK];
        for axis in self.dims.iter().filter(|_| !self.all) {
            let positive = if *axis < 0 { *axis + rank as i64 } else { *axis };
            match usize::try_from(positive) {
                Ok(axis) if axis < rank => reduced[axis] = true,
                // A scalar takes axis 0 or -1, as in Paddle.
                _ if rank == 0 && [0, -1].contains(axis) => {}
                _ => {
                    return Err(Error::kernel(format!(
                        "cannot reduce axis {axis} of a tensor of rank {rank}"
                    )));
                }
            }
        }
        Ok(reduced)
    }

    /// The walk over `X` with the result as its operand, and how many elements make one result.
    pub(super) fn walk(&self, x: Dims) -> Result<(BroadcastWalk<1>, usize)> {
        let reduced = self.reduced(x.len())?;
        let mut kept = [1; MAX_RANK];
        let mut count = 1;
        for (axis, dim) in x.iter().enumerate() {
            if reduced[axis] {
                count *= dim;
            } else {
                kept[axis] = *dim;
            }
        }
        Ok((BroadcastWalk::new(&x, [&kept[..x.len()]])?, count))
    }

    /// Whether the batch is among what is reduced.
    pub(super) fn over_rows(&self, rank: usize) -> bool {
        rank > 0 && self.reduced(rank).is_ok_and(|reduced| reduced[0])
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let out = result(cx)?;
    cx.set("Out", out);
    Ok(())
}

/// What a reduction makes of `X`; `out_dtype` is its element type when given.
pub(super) fn result(cx: &Infer<'_>) -> Result<Meta> {
    let x = cx.input("X")?;
    let reduced = Axes::of(cx.op())?.reduced(x.rank())?;
    let keep = cx.op().bool("keep_dim")?;
    let mut dims = Vec::new();
    for (dim, reduced) in x.dims.iter().zip(reduced) {
        match (reduced, keep) {
            (false, _) => dims.push(*dim),
            (true, true) => dims.push(1),
            (true, false) => {}
        }
    }
    let given = cx.op().i64("out_dtype")? >= 0;
    let dtype = if given { cx.op().dtype("out_dtype")? } else { x.dtype };
    Ok(x.with_dims(dims).with_dtype(dtype))
}

/// Rows stay rows when the batch is kept.
pub(super) fn split_kept(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let over_rows = Axes::of(view.op).ok()?.over_rows(view.meta("X")?.rank());
    (view.spread("X") == Spread::Rows && !over_rows).then(|| vec![Spread::Rows])
}

fn split_kept_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let rows = view.spreads.iter().all(|spread| *spread == Spread::Rows);
    split_kept(view).filter(|_| rows)
}

/// Sums over the batch are pieces of the whole sum.
pub(super) fn split_sum(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    if view.spread("X") != Spread::Rows {
        return None;
    }
    let over_rows = Axes::of(view.op).ok()?.over_rows(view.meta("X")?.rank());
    Some(vec![if over_rows { Spread::Partial } else { Spread::Rows }])
}

/// The gradient of a sum over the batch is the same for every row.
fn split_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let over_rows = Axes::of(view.op).ok()?.over_rows(view.meta("X")?.rank());
    let needed = if over_rows { Spread::Whole } else { Spread::Rows };
    let fits = view.spread("X") == Spread::Rows && view.spread("Out@GRAD") == needed;
    fits.then(|| vec![Spread::Rows])
}

/// Folds `x` into `out`: `fold` joins a result with an element, `fold_run` with a whole run.
pub(super) fn reduce<T: Element>(
    walk: &BroadcastWalk<1>,
    x: &[T],
    out: &mut [T],
    start: T,
    fold: impl Fn(T, T) -> T,
    fold_run: impl Fn(T, &[T]) -> T,
) {
    out.fill(start);
    let len = walk.run;
    vectorized_for::<T, _>(
        #[inline(always)]
        || {
            walk.for_each(
                #[inline(always)]
                |at, [to]| {
                    let x = &x[at..at + len];
                    if walk.moves[0] {
                        for (out, x) in out[to..to + len].iter_mut().zip(x) {
                            *out = fold(*out, *x);
                        }
                    } else {
                        out[to] = fold_run(out[to], x);
                    }
                },
            );
        },
    );
}

/// Writes `f(x, out, dout)` for every element of `x` and the result that it went into.
pub(super) fn spread<T: Number>(
    walk: &BroadcastWalk<1>,
    x: &[T],
    out: &[T],
    dout: &[T],
    dx: &mut [T],
    f: impl Fn(T, T, T) -> T,
) {
    let len = walk.run;
    vectorized_for::<T, _>(
        #[inline(always)]
        || {
            walk.for_each(
                #[inline(always)]
                |at, [from]| {
                    let pairs = dx[at..at + len].iter_mut().zip(&x[at..at + len]);
                    if walk.moves[0] {
                        let results = out[from..from + len].iter().zip(&dout[from..from + len]);
                        for ((dx, x), (out, dout)) in pairs.zip(results) {
                            *dx = f(*x, *out, *dout);
                        }
                    } else {
                        let (out, dout) = (out[from], dout[from]);
                        for (dx, x) in pairs {
                            *dx = f(*x, out, dout);
                        }
                    }
                },
            );
        },
    );
}
