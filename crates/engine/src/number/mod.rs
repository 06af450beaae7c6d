//! The arithmetic that kernels and update rules are generic over: numbers of any kind, and real
//! numbers.
//!
//! Integer arithmetic wraps around, as it does in Paddle; kernels that divide refuse a divisor of
//! zero before they start.

mod erf;
mod exp;
mod sums;

use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::tensor::Element;

pub(crate) use sums::{fold_of, sum_of, sum_of_pairs};

/// Elements that can be added, multiplied and compared.
pub trait Number: Element {
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

/// `f32` or `f64`: what float kernels and update rules are written over.
pub trait Real:
    Number
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    /// `e` to the power of this; in single precision without branches, so that loops vectorise.
    fn exp(self) -> Self;
    /// The hyperbolic tangent; as [`Real::exp`].
    fn tanh(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The natural logarithm of one more than this, exact near zero.
    fn ln_1p(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// This to the power of `exponent`.
    fn powf(self, exponent: Self) -> Self;
    /// The error function.
    fn erf(self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// The magnitude of this number with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// The greater of the two; the other one when one is NaN.
    fn max(self, other: Self) -> Self;

    /// The greater of the two, without the care for NaN that costs [`Real::max`] instructions.
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        if self > other { self } else { other }
    }

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

/// Functions from `$t` to `$t`, each inlined into the loop that calls it.
macro_rules! functions {
    ($t:ty; $($name:ident($x:ident $(, $y:ident)?) => $body:expr;)*) => {$(
        #[inline(always)]
        fn $name($x $(, $y: $t)?) -> $t {
            $body
        }
    )*};
}

macro_rules! float {
    ($($t:ident, $exp:path, $tanh:path, $erf:path;)*) => {$(
        impl Number for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const LOWEST: $t = $t::NEG_INFINITY;
            const HIGHEST: $t = $t::INFINITY;
            const IS_INTEGER: bool = false;
            functions! { $t;
                plus(self, other) => self + other;
                minus(self, other) => self - other;
                times(self, other) => self * other;
                over(self, other) => self / other;
                floor_over(self, other) => (self / other).floor();
                modulo(self, other) => {
                    let rest = self % other;
                    if rest != 0.0 && (rest < 0.0) != (other < 0.0) { rest + other } else { rest }
                };
                magnitude(self) => self.abs();
            }
        }

        impl Real for $t {
            functions! { $t;
                exp(self) => $exp(self);
                tanh(self) => $tanh(self);
                ln(self) => $t::ln(self);
                ln_1p(self) => $t::ln_1p(self);
                sqrt(self) => $t::sqrt(self);
                powf(self, exponent) => $t::powf(self, exponent);
                erf(self) => $erf(self);
                abs(self) => $t::abs(self);
                copysign(self, sign) => $t::copysign(self, sign);
                max(self, other) => $t::max(self, other);
            }
        }
    )*};
}

macro_rules! integer {
    ($($t:ident),*) => {$(
        impl Number for $t {
            const ZERO: $t = 0;
            const ONE: $t = 1;
            const LOWEST: $t = $t::MIN;
            const HIGHEST: $t = $t::MAX;
            const IS_INTEGER: bool = true;
            functions! { $t;
                plus(self, other) => self.wrapping_add(other);
                minus(self, other) => self.wrapping_sub(other);
                times(self, other) => self.wrapping_mul(other);
                over(self, other) => self.wrapping_div(other);
                floor_over(self, other) => {
                    let quotient = self.wrapping_div(other);
                    let uneven = self.wrapping_rem(other) != 0;
                    if uneven && (self < 0) != (other < 0) { quotient - 1 } else { quotient }
                };
                modulo(self, other) => {
                    let rest = self.wrapping_rem(other);
                    if rest != 0 && (rest < 0) != (other < 0) { rest + other } else { rest }
                };
                magnitude(self) => self.wrapping_abs();
            }
        }
    )*};
}

float! {
    f32, exp::exp, exp::tanh, erf::erf_single;
    f64, f64::exp, f64::tanh, erf::erf;
}
integer! { i32, i64 }
