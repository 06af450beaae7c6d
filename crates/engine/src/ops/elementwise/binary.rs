//! What functions of two elements share: slots, shapes, and loops over walks.

use super::broadcast;
use super::broadcast_walk::BroadcastWalk;
use crate::ops::prelude::*;

/// A function of two elements.
pub(in crate::ops) trait Binary: 'static {
    /// Its value.
    fn apply<T: Number>(x: T, y: T) -> T;

    /// Whether integers `y` of zero have no result.
    const DIVIDES: bool = false;
}

/// The partial derivatives of a function of two elements, times the gradient of its value.
pub(in crate::ops) trait Partials: 'static {
    /// With respect to `x`.
    fn dx<T: Real>(x: T, y: T, dout: T) -> T;
    /// With respect to `y`.
    fn dy<T: Real>(x: T, y: T, dout: T) -> T;
}

/// The definition of `Out = f(X, Y)`.
pub(super) const fn def(name: &'static str, kernel: fn(&OpView<'_>) -> Result<Kernel>) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("X"), Slot::one("Y")] })
        .outputs(const { &[Slot::one("Out")] })
        .attrs(const { &[attr::int("axis", -1)] })
        .infer(broadcast::infer)
        .lod_from("X")
        .split(SplitRule::Fn(broadcast::split))
}

/// The gradient of `Out = f(X, Y)`.
pub(super) const fn gradient<P: Partials>() -> Gradient {
    Gradient::new(&["X", "Y"], grad_kernel::<P>)
        .reads(&["X", "Y"])
        .split(SplitRule::Fn(broadcast::split_grad))
}

/// The split rule of sums and differences: those of pieces are pieces of those of the values.
pub(super) fn split_linear(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let pieces = view.spreads.iter().all(|spread| *spread == Spread::Partial);
    if pieces { Some(vec![Spread::Partial]) } else { broadcast::split(view) }
}

/// The split rule of a product or quotient by a whole value: pieces stay pieces, except of
/// integers, whose quotients are cut off.
pub(super) fn split_scaling(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let scaled = view.spread("X") == Spread::Partial
        && view.spread("Y") == Spread::Whole
        && view.meta("X")?.dtype.is_float();
    if scaled { Some(vec![Spread::Partial]) } else { broadcast::split(view) }
}

/// The kernel of `Out = f(X, Y)`.
pub(super) fn kernel<B: Binary>(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    let axis = op.i64("axis")?;
    Ok(Box::new(move |run| {
        let y = run.tensor(y)?;
        match run.value(x) {
            Value::Tensor(x) => forward::<B>(x, y, axis, run.out(&mut out)?),
            Value::Rows(x) => scale_rows::<B>(x, y, run.out_rows(&mut out, x.value.dtype())),
        }
    }))
}

fn forward<B: Binary>(x: &Tensor, y: &Tensor, axis: i64, out: &mut Tensor) -> Result<()> {
    let walk = broadcast::walk(&x.dims(), &y.dims(), axis)?;
    dispatch!(x.dtype(), T in [f32, f64, i32, i64] => {
        let (x, y) = (x.as_slice::<T>()?, y.as_slice::<T>()?);
        if B::DIVIDES && T::IS_INTEGER && y.contains(&T::ZERO) {
            return Err(Error::kernel("integer division by zero: `Y` has a zero"));
        }
        apply(&walk, x, y, out.as_mut_slice::<T>()?, B::apply::<T>)
    }, else => Err(Error::kernel(format!("no arithmetic on {} elements", x.dtype()))))
}

/// Rows of a gradient times a number, as clipping by a global norm needs.
fn scale_rows<B: Binary>(x: &SelectedRows, y: &Tensor, out: &mut SelectedRows) -> Result<()> {
    if y.numel() != 1 {
        return Err(Error::kernel(format!(
            "`X` holds selected rows, so `Y` must be one number, not {}",
            y.dims()
        )));
    }
    out.rows.clone_from(&x.rows);
    out.height = x.height;
    out.value.resize(x.value.dtype(), x.value.dims());
    forward::<B>(&x.value, y, -1, &mut out.value)
}

/// Writes `f(x, y)` for every element of a walk.
pub(in crate::ops) fn apply<T: Element, R: Element>(
    walk: &BroadcastWalk<2>,
    x: &[T],
    y: &[T],
    out: &mut [R],
    f: impl Fn(T, T) -> R,
) -> Result<()> {
    let len = walk.run;
    vectorized_for::<T, _>(
        #[inline(always)]
        || {
            walk.for_each(
                #[inline(always)]
                |at, [xs, ys]| {
                    let out = &mut out[at..at + len];
                    match walk.moves {
                        [true, true] => {
                            let operands = x[xs..xs + len].iter().zip(&y[ys..ys + len]);
                            for (out, (x, y)) in out.iter_mut().zip(operands) {
                                *out = f(*x, *y);
                            }
                        }
                        [_, false] => {
                            let y = y[ys];
                            for (out, x) in out.iter_mut().zip(&x[xs..xs + len]) {
                                *out = f(*x, y);
                            }
                        }
                        [false, true] => {
                            let x = x[xs];
                            for (out, y) in out.iter_mut().zip(&y[ys..ys + len]) {
                                *out = f(x, *y);
                            }
                        }
                    }
                },
            );
        },
    );
    Ok(())
}

/// The kernel of the gradient of `Out = f(X, Y)`.
pub(super) fn grad_kernel<P: Partials>(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, dout) = (op.input("X")?, op.input("Y")?, op.input("Out@GRAD")?);
    let (mut dx, mut dy) = (op.maybe_output("X@GRAD"), op.maybe_output("Y@GRAD"));
    let axis = op.i64("axis")?;
    float_kernel!(op, "X", |run, T| {
        let (x, y) = (run.tensor(x)?, run.tensor(y)?);
        let walk = broadcast::walk(&x.dims(), &y.dims(), axis)?;
        let (x, y, dout) = (x.as_slice::<T>()?, y.as_slice::<T>()?, run.get::<T>(dout)?);
        if let Some(dx) = &mut dx {
            gather(&walk, 0, x, y, dout, run.set(dx)?, P::dx::<T>);
        }
        if let Some(dy) = &mut dy {
            gather(&walk, 1, y, x, dout, run.set(dy)?, |y, x, dout| P::dy(x, y, dout));
        }
    })
}

/// Sums `f(mine, other, dout)` into the gradient of operand `which` (0 or 1) of a walk, over every
/// element of the result that the operand's element took part in.
pub(in crate::ops) fn gather<T: Real>(
    walk: &BroadcastWalk<2>,
    which: usize,
    mine: &[T],
    other: &[T],
    dout: &[T],
    grad: &mut [T],
    f: impl Fn(T, T, T) -> T,
) {
    if walk.repeats[which] {
        grad.fill(T::ZERO);
        gather_runs(walk, which, mine, other, dout, grad, |sum, x, y, d| sum + f(x, y, d));
    } else {
        // An operand that is used once is written once: no zeroes, no sums.
        gather_runs(walk, which, mine, other, dout, grad, |_, x, y, d| f(x, y, d));
    }
}

fn gather_runs<T: Real>(
    walk: &BroadcastWalk<2>,
    which: usize,
    mine: &[T],
    other: &[T],
    dout: &[T],
    grad: &mut [T],
    f: impl Fn(T, T, T, T) -> T,
) {
    let len = walk.run;
    let moves = [walk.moves[which], walk.moves[1 - which]];
    vectorized_for::<T, _>(
        #[inline(always)]
        || {
            walk.for_each(
                #[inline(always)]
                |at, starts| {
                    let dout = &dout[at..at + len];
                    let (me, you) = (starts[which], starts[1 - which]);
                    match moves {
                        [true, true] => {
                            let operands = mine[me..me + len].iter().zip(&other[you..you + len]);
                            let grads = grad[me..me + len].iter_mut().zip(dout);
                            for ((grad, dout), (mine, other)) in grads.zip(operands) {
                                *grad = f(*grad, *mine, *other, *dout);
                            }
                        }
                        [true, false] => {
                            let other = other[you];
                            let grads = grad[me..me + len].iter_mut().zip(dout);
                            for ((grad, dout), mine) in grads.zip(&mine[me..me + len]) {
                                *grad = f(*grad, *mine, other, *dout);
                            }
                        }
                        [false, _] => {
                            let (mine, other) = (mine[me], &other[you..you + len]);
                            let sum = sum_of_pairs(other, dout, |y, d| f(T::ZERO, mine, y, d));
                            grad[me] += sum;
                        }
                    }
                },
            );
        },
    );
}
