//! The numbers that can be reduced, and the loops that reduce them.
//! The order of the operands is part of each function, so that all ranks get the same bits, NaN and
//! signs of zero included.

/// How the values of all ranks become one. An average is a sum that the caller scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reduce {
    /// Adds; integers wrap around.
    Sum = 0,
    /// Multiplies; integers wrap around.
    Prod = 1,
    /// The smallest; NaN wins.
    Min = 2,
    /// The largest; NaN wins.
    Max = 3,
}

/// A number that can be reduced.
pub trait Element: bytemuck::Pod + Send + Sync + PartialEq + std::fmt::Debug {
    /// Its number in the description of a call.
    #[doc(hidden)]
    const CODE: u8;
    #[doc(hidden)]
    fn sum(left: Self, right: Self) -> Self;
    #[doc(hidden)]
    fn prod(left: Self, right: Self) -> Self;
    #[doc(hidden)]
    fn min(left: Self, right: Self) -> Self;
    #[doc(hidden)]
    fn max(left: Self, right: Self) -> Self;
}

/// Names of the element types by their code.
pub(crate) const TYPES: [&str; 6] = ["bytes", "f32", "f64", "i32", "i64", "u8"];

macro_rules! float {
    ($type:ty, $code:expr) => {
        impl Element for $type {
            const CODE: u8 = $code;
            #[inline(always)]
            fn sum(left: Self, right: Self) -> Self {
                left + right
            }
            #[inline(always)]
            fn prod(left: Self, right: Self) -> Self {
                left * right
            }
            #[inline(always)]
            fn min(left: Self, right: Self) -> Self {
                // A NaN on the left loses no comparison, so it stays.
                if right < left || right.is_nan() { right } else { left }
            }
            #[inline(always)]
            fn max(left: Self, right: Self) -> Self {
                if right > left || right.is_nan() { right } else { left }
            }
        }
    };
}

macro_rules! integer {
    ($type:ty, $code:expr) => {
        impl Element for $type {
            const CODE: u8 = $code;
            #[inline(always)]
            fn sum(left: Self, right: Self) -> Self {
                left.wrapping_add(right)
            }
            #[inline(always)]
            fn prod(left: Self, right: Self) -> Self {
                left.wrapping_mul(right)
            }
            #[inline(always)]
            fn min(left: Self, right: Self) -> Self {
                Ord::min(left, right)
            }
            #[inline(always)]
            fn max(left: Self, right: Self) -> Self {
                Ord::max(left, right)
            }
        }
    };
}

float!(f32, 1);
float!(f64, 2);
integer!(i32, 3);
integer!(i64, 4);
integer!(u8, 5);

/// `into = into op from`, element by element.
pub(crate) fn fold<T: Element>(op: Reduce, into: &mut [T], from: &[T]) {
    fn each<T: Element>(into: &mut [T], from: &[T], apply: impl Fn(T, T) -> T) {
        into.iter_mut().zip(from).for_each(|(into, from)| *into = apply(*into, *from));
    }
    match op {
        Reduce::Sum => each(into, from, T::sum),
        Reduce::Prod => each(into, from, T::prod),
        Reduce::Min => each(into, from, T::min),
        Reduce::Max => each(into, from, T::max),
    }
}

/// `into = from op into`, element by element.
pub(crate) fn fold_before<T: Element>(op: Reduce, from: &[T], into: &mut [T]) {
    fn each<T: Element>(from: &[T], into: &mut [T], apply: impl Fn(T, T) -> T) {
        into.iter_mut().zip(from).for_each(|(into, from)| *into = apply(*from, *into));
    }
    match op {
        Reduce::Sum => each(from, into, T::sum),
        Reduce::Prod => each(from, into, T::prod),
        Reduce::Min => each(from, into, T::min),
        Reduce::Max => each(from, into, T::max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_wins_on_both_sides() {
        for op in [Reduce::Min, Reduce::Max] {
            let mut into = [1.0f32, f32::NAN, 3.0];
            fold(op, &mut into, &[f32::NAN, 2.0, 3.0]);
            assert!(into[0].is_nan() && into[1].is_nan() && into[2] == 3.0);
        }
    }

    #[test]
    fn operands_keep_their_order() {
        let mut into = [0.0f32];
        fold(Reduce::Min, &mut into, &[-0.0]);
        assert_eq!(into[0].to_bits(), 0.0f32.to_bits());
        fold_before(Reduce::Min, &[-0.0], &mut into);
        assert_eq!(into[0].to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn integers_wrap_around() {
        let mut into = [250u8, 3];
        fold(Reduce::Sum, &mut into, &[10, 4]);
        assert_eq!(into, [4, 7]);
        fold(Reduce::Prod, &mut into, &[100, 2]);
        assert_eq!(into, [144, 14]);
        let mut into = [i64::MAX];
        fold(Reduce::Sum, &mut into, &[1]);
        assert_eq!(into, [i64::MIN]);
    }
}
