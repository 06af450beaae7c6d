//! The arithmetic that update rules need of both float types.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::merge_rows::{RowMerger, RowMergers};
use crate::tensor::Element;

/// `f32` or `f64`: what an update rule is written over.
pub trait Real:
    Element
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// The square root.
    fn sqrt(self) -> Self;
    /// This number to the power `exponent`.
    fn powf(self, exponent: Self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// The greater of the two.
    fn greater(self, other: Self) -> Self;
    /// The magnitude of this number with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;

    /// The merger of this type.
    fn merger(mergers: &mut RowMergers) -> &mut RowMerger<Self>;
}

macro_rules! real {
    ($($t:ident),*) => {$(
        impl Real for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            #[inline(always)]
            fn sqrt(self) -> $t {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn powf(self, exponent: $t) -> $t {
                $t::powf(self, exponent)
            }
            #[inline(always)]
            fn abs(self) -> $t {
                $t::abs(self)
            }
            #[inline(always)]
            fn greater(self, other: $t) -> $t {
                // Not `max`, whose care for NaN costs instructions.
                if self > other { self } else { other }
            }
            #[inline(always)]
            fn copysign(self, sign: $t) -> $t {
                $t::copysign(self, sign)
            }
            fn merger(mergers: &mut RowMergers) -> &mut RowMerger<$t> {
                &mut mergers.$t
            }
        }
    )*};
}

real! { f32, f64 }

/// Partial sums kept side by side: the compiler may not reorder float additions by itself.
const LANES: usize = 8;

/// The Euclidean norm of `f` over the elements of three slices, summed in double precision.
pub(super) fn norm<T: Real>(slices: [&[T]; 3], f: impl Fn(T, T, T) -> T) -> f64 {
    let mut lanes = [0.0; LANES];
    let mut add = |[x, y, z]: [&[T]; 3]| {
        for (((lane, x), y), z) in lanes.iter_mut().zip(x).zip(y).zip(z) {
            let value = f(*x, *y, *z).to_f64();
            *lane += value * value;
        }
    };
    let [xs, ys, zs] = slices.map(|slice| slice.chunks(LANES));
    for ((x, y), z) in xs.zip(ys).zip(zs) {
        add([x, y, z]);
    }
    lanes.into_iter().fold(0.0, Add::add).sqrt()
}
