//! Arithmetic that kernels need of both float types, and sums that vectorise.

use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use bireme_ir::DType;
use half::{bf16, f16};

use crate::tensor::{Element, Tensor};
use crate::{Error, dispatch};

/// `f32` or `f64`: what a float kernel is written over.
pub(crate) trait Real:
    Element
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// The exponential function.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The natural logarithm of `1 + self`, exact near 0.
    fn ln_1p(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// The greater of the two; the other one when one is NaN.
    fn max(self, other: Self) -> Self;
}

macro_rules! real {
    ($($t:ident),*) => {$(
        impl Real for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            fn exp(self) -> $t { $t::exp(self) }
            fn ln(self) -> $t { $t::ln(self) }
            fn ln_1p(self) -> $t { $t::ln_1p(self) }
            fn sqrt(self) -> $t { $t::sqrt(self) }
            fn abs(self) -> $t { $t::abs(self) }
            fn max(self, other: $t) -> $t { $t::max(self, other) }
        }
    )*};
}

real! { f32, f64 }

/// Partial sums kept side by side. The compiler may not reorder float additions by itself, so a
/// plain sum runs at the latency of one addition per element.
const LANES: usize = 16;

/// The sum of `f(x)` over `xs`.
#[inline(always)]
pub(crate) fn sum<T: Real>(xs: &[T], f: impl Fn(T) -> T) -> T {
    let chunks = xs.chunks_exact(LANES);
    let tail = chunks.remainder().iter().fold(T::ZERO, |sum, x| sum + f(*x));
    let mut lanes = [T::ZERO; LANES];
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += f(*x);
        }
    }
    lanes.into_iter().fold(tail, Add::add)
}

/// The sum of `f(x, y)` over pairs of `xs` and `ys`.
#[inline(always)]
pub(crate) fn sum2<T: Real>(xs: &[T], ys: &[T], f: impl Fn(T, T) -> T) -> T {
    let (x_chunks, y_chunks) = (xs.chunks_exact(LANES), ys.chunks_exact(LANES));
    let tail = x_chunks.remainder().iter().zip(y_chunks.remainder());
    let tail = tail.fold(T::ZERO, |sum, (x, y)| sum + f(*x, *y));
    let mut lanes = [T::ZERO; LANES];
    for (x_chunk, y_chunk) in x_chunks.zip(y_chunks) {
        for ((lane, x), y) in lanes.iter_mut().zip(x_chunk).zip(y_chunk) {
            *lane += f(*x, *y);
        }
    }
    lanes.into_iter().fold(tail, Add::add)
}

/// The first element of a tensor that stands for a number, whatever its type.
pub(crate) fn first_number(tensor: &Tensor) -> Option<f64> {
    dispatch!(tensor.dtype(), T in [f32, f64, i32, i64, u8, i8, i16, f16, bf16] => {
        tensor.as_slice::<T>().ok()?.first().map(|first| first.to_f64())
    }, else => None)
}

/// The error of a float kernel that was given something else in slot `slot`.
pub(crate) fn not_float(slot: &str, dtype: DType) -> Error {
    Error::kernel(format!("`{slot}` must be float32 or float64, not {dtype}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_count_every_element_once() {
        for len in [0, 1, 15, 16, 17, 50] {
            let xs: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let expected: f32 = xs.iter().sum();
            assert_eq!(sum(&xs, |x| x), expected);
            assert_eq!(sum2(&xs, &xs, |x, y| x + y), 2.0 * expected);
        }
    }
}
