//! The arithmetic that kernels are generic over: numbers of any kind, and real numbers.
//!
//! Integer arithmetic wraps around, as it does in Paddle; kernels that divide refuse a divisor of
//! zero before they start.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{erf, fast_exp};
use crate::tensor::Element;

/// Elements that can be added, multiplied and compared.
pub(in crate::ops) trait Number: Element {
    /// The neutral element of addition.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;
    /// Not above any other number: what a maximum starts from.
    const LOWEST: Self;
    /// Not below any other number: what a minimum starts from.
    const HIGHEST: Self;
    /// Whether division by zero has no result.
    const IS_INTEGER: bool;

    /// `self + other`
    fn plus(self, other: Self) -> Self;
    /// `self - other`
    fn minus(self, other: Self) -> Self;
    /// `self * other`
    fn times(self, other: Self) -> Self;
    /// `self / other`; integers are cut off towards zero.
    fn over(self, other: Self) -> Self;
    /// The quotient rounded down.
    fn floor_over(self, other: Self) -> Self;
    /// What the rounded-down quotient leaves; has the sign of `other`.
    fn modulo(self, other: Self) -> Self;
    /// The distance from zero.
    fn magnitude(self) -> Self;
}

macro_rules! float_number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const LOWEST: $t = <$t>::NEG_INFINITY;
            const HIGHEST: $t = <$t>::INFINITY;
            const IS_INTEGER: bool = false;
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: $t) -> $t {
                self - other
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self * other
            }
            #[inline(always)]
            fn over(self, other: $t) -> $t {
                self / other
            }
            #[inline(always)]
            fn floor_over(self, other: $t) -> $t {
                (self / other).floor()
            }
            #[inline(always)]
            fn modulo(self, other: $t) -> $t {
                let rest = self % other;
                if rest != 0.0 && (rest < 0.0) != (other < 0.0) { rest + other } else { rest }
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                self.abs()
            }
        }
    )*};
}

macro_rules! integer_number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const LOWEST: $t = <$t>::MIN;
            const HIGHEST: $t = <$t>::MAX;
            const IS_INTEGER: bool = true;
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: $t) -> $t {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn over(self, other: $t) -> $t {
                self.wrapping_div(other)
            }
            #[inline(always)]
            fn floor_over(self, other: $t) -> $t {
                let quotient = self.wrapping_div(other);
                let uneven = self.wrapping_rem(other) != 0;
                if uneven && (self < 0) != (other < 0) { quotient - 1 } else { quotient }
            }
            #[inline(always)]
            fn modulo(self, other: $t) -> $t {
                let rest = self.wrapping_rem(other);
                if rest != 0 && (rest < 0) != (other < 0) { rest + other } else { rest }
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                self.wrapping_abs()
            }
        }
    )*};
}

float_number! { f32, f64 }
integer_number! { i32, i64 }

/// Elements that gradients are made of.
pub(in crate::ops) trait Real:
    Number
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The number nearest to `value`: for constants in generic formulas.
    fn of(value: f64) -> Self;
    /// `e` to the power of this.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The natural logarithm of one more than this, exact near zero.
    fn ln_1p(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// This to the power of `exponent`.
    fn powf(self, exponent: Self) -> Self;
    /// The error function.
    fn erf(self) -> Self;

    /// The sign: -1, 0 or 1; NaN of NaN.
    #[inline(always)]
    fn sign(self) -> Self {
        if self > Self::ZERO {
            Self::ONE
        } else if self < Self::ZERO {
            -Self::ONE
        } else {
            self
        }
    }

    /// The logistic function.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
    }
}

macro_rules! real {
    ($($t:ty, $exp:path, $tanh:path, $erf:path;)*) => {$(
        impl Real for $t {
            #[inline(always)]
            fn of(value: f64) -> $t {
                value as $t
            }
            #[inline(always)]
            fn exp(self) -> $t {
                $exp(self)
            }
            #[inline(always)]
            fn tanh(self) -> $t {
                $tanh(self)
            }
            #[inline(always)]
            fn ln(self) -> $t {
                <$t>::ln(self)
            }
            #[inline(always)]
            fn ln_1p(self) -> $t {
                <$t>::ln_1p(self)
            }
            #[inline(always)]
            fn sqrt(self) -> $t {
                <$t>::sqrt(self)
            }
            #[inline(always)]
            fn powf(self, exponent: $t) -> $t {
                <$t>::powf(self, exponent)
            }
            #[inline(always)]
            fn erf(self) -> $t {
                $erf(self)
            }
        }
    )*};
}

real! {
    f32, fast_exp::exp, fast_exp::tanh, erf::erf_single;
    f64, f64::exp, f64::tanh, erf::erf;
}

/// The sum of `f(x)` over all elements, in eight independent chains: vectorises, and keeps more
/// digits than one chain.
#[inline(always)]
pub(in crate::ops) fn sum_of<T: Number, S: Number>(x: &[T], f: impl Fn(T) -> S) -> S {
    sum_of_pairs(x, x, |x, _| f(x))
}

/// The sum of `f(x, y)` over two slices of the same length; as [`sum_of`].
#[inline(always)]
pub(in crate::ops) fn sum_of_pairs<T: Number, S: Number>(
    x: &[T],
    y: &[T],
    f: impl Fn(T, T) -> S,
) -> S {
    const LANES: usize = 8;
    let mut lanes = [S::ZERO; LANES];
    let (x_chunks, y_chunks) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let mut rest = S::ZERO;
    for (x, y) in x_chunks.remainder().iter().zip(y_chunks.remainder()) {
        rest = rest.plus(f(*x, *y));
    }
    for (x, y) in x_chunks.zip(y_chunks) {
        for ((sum, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *sum = sum.plus(f(*x, *y));
        }
    }
    let pairs = [0, 1, 2, 3].map(|lane| lanes[lane].plus(lanes[lane + 4]));
    pairs[0].plus(pairs[2]).plus(pairs[1].plus(pairs[3])).plus(rest)
}

/// Folds all elements with `f`, which must not care about their order, from `start`; in eight
/// chains, so that it vectorises.
#[inline(always)]
pub(in crate::ops) fn fold_of<T: Number>(x: &[T], start: T, f: impl Fn(T, T) -> T) -> T {
    let mut lanes = [start; 8];
    let chunks = x.chunks_exact(8);
    let rest = chunks.remainder().iter().fold(start, |so_far, x| f(so_far, *x));
    for x in chunks {
        for (so_far, x) in lanes.iter_mut().zip(x) {
            *so_far = f(*so_far, *x);
        }
    }
    lanes.into_iter().fold(rest, f)
}
