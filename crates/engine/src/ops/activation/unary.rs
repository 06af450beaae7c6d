//! What functions of one element share: slots, shapes, and loops over slices for both float types.

use crate::ops::prelude::*;

/// The definition of `Out = f(X)`.
pub(in crate::ops) const fn def(
    name: &'static str,
    kernel: fn(&OpView<'_>) -> Result<Kernel>,
) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("X")] })
        .outputs(const { &[Slot::one("Out")] })
        .like(&[("Out", "X")])
        .lod_from("X")
        .split(SplitRule::RowWise)
}

/// A gradient that needs the forward op's input.
pub(in crate::ops) const fn from_x(kernel: fn(&OpView<'_>) -> Result<Kernel>) -> Gradient {
    Gradient::new(&["X"], kernel).reads(&["X"])
}

/// A gradient that needs the forward op's output.
pub(in crate::ops) const fn from_out(kernel: fn(&OpView<'_>) -> Result<Kernel>) -> Gradient {
    Gradient::new(&["X"], kernel).reads(&["Out"]).like("Out")
}

/// The formula of a gradient: `Out@GRAD` times a function of the value in `slot`, the slope.
pub(in crate::ops) fn formula(
    f: &mut Formula<'_>,
    slot: &str,
    slope: fn(&mut Formula<'_>, &str) -> String,
) -> Result<()> {
    let (value, dout) = (f.input(slot)?, f.input("Out@GRAD")?);
    let slope = slope(f, &value);
    let dx = f.mul(&dout, &slope);
    f.give("X@GRAD", &dx);
    Ok(())
}

/// A kernel `Out = f(X)`, written over `T` for both float types: `map!(op, |x, T| f(x))`.
macro_rules! map {
    ($op:expr, |$x:ident, $T:ident| $f:expr) => {{
        let (x, mut out) = ($op.input("X")?, $op.output("Out")?);
        $crate::op::float_kernel!($op, "X", |run, $T| {
            let (x, out) = (run.get::<$T>(x)?, run.set::<$T>(&mut out)?);
            $crate::ops::activation::unary::each(
                x,
                out,
                #[inline(always)]
                |$x: $T| $f,
            );
        })
    }};
}

/// A kernel `X@GRAD = f(value, Out@GRAD)`, where `value` is the forward input or output in a slot:
/// `map_grad!(op, "X", |x, dout, T| f(x, dout))`.
macro_rules! map_grad {
    ($op:expr, $slot:expr, |$value:ident, $dout:ident, $T:ident| $f:expr) => {{
        let (value, dout) = ($op.input($slot)?, $op.input("Out@GRAD")?);
        let mut dx = $op.output("X@GRAD")?;
        $crate::op::float_kernel!($op, "Out@GRAD", |run, $T| {
            let (value, dout) = (run.get::<$T>(value)?, run.get::<$T>(dout)?);
            $crate::ops::activation::unary::each_grad(
                value,
                dout,
                run.set::<$T>(&mut dx)?,
                #[inline(always)]
                |$value: $T, $dout: $T| $f,
            );
        })
    }};
}

pub(in crate::ops) use {map, map_grad};

/// Writes `f(x)` for every element.
pub(in crate::ops) fn each<T: Copy, R>(x: &[T], out: &mut [R], f: impl Fn(T) -> R) {
    vectorized_for::<T, _>(
        #[inline(always)]
        || {
            for (out, x) in out.iter_mut().zip(x) {
                *out = f(*x);
            }
        },
    );
}

/// Writes `f(value, dout)` for every element.
pub(in crate::ops) fn each_grad<T: Copy>(
    value: &[T],
    dout: &[T],
    dx: &mut [T],
    f: impl Fn(T, T) -> T,
) {
    vectorized_for::<T, _>(
        #[inline(always)]
        || {
            for ((dx, value), dout) in dx.iter_mut().zip(value).zip(dout) {
                *dx = f(*value, *dout);
            }
        },
    );
}
