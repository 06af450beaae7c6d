//! Whether all elements are finite: one pass, as fast as the memory, without a branch for each
//! element.

use half::{bf16, f16};

use crate::simd::vectorized;
use crate::tensor::{Element, Tensor};

/// Elements between two looks at what was found: enough for vectors, few enough to stop early.
const CHUNK: usize = 4096;

/// An element that is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFinite {
    /// Its position.
    pub at: usize,
    /// `NaN` or `infinity`.
    pub what: &'static str,
}

/// The first element of `tensor` that is NaN or infinite; integers never are.
pub fn not_finite(tensor: &Tensor) -> Option<NotFinite> {
    crate::dispatch!(tensor.dtype(), T in [f32, f64, f16, bf16] => {
        find(tensor.as_slice::<T>().ok()?)
    }, else => None)
}

/// The first of `values` that is NaN or infinite.
pub fn not_finite_in(values: &[f32]) -> Option<NotFinite> {
    find(values)
}

fn find<T: Bits>(values: &[T]) -> Option<NotFinite> {
    let chunk = vectorized(
        #[inline(always)]
        || values.chunks(CHUNK).position(any),
    )?;
    let is_bad = |value: &T| value.is_bad() != 0;
    let at = chunk * CHUNK + values[chunk * CHUNK..].iter().position(is_bad)?;
    let what = if values[at].to_f64().is_nan() { "NaN" } else { "infinity" };
    Some(NotFinite { at, what })
}

#[inline(always)]
fn any<T: Bits>(values: &[T]) -> bool {
    values.iter().fold(0, |bad, value| bad | value.is_bad()) != 0
}

/// Elements whose bits say whether they are finite.
trait Bits: Element {
    /// 1 when the exponent has all its bits, which is so for NaN and infinity alone.
    fn is_bad(self) -> u32;
}

macro_rules! bits {
    ($($t:ty: $exponent:literal),*) => {$(
        impl Bits for $t {
            #[inline(always)]
            fn is_bad(self) -> u32 {
                u32::from(self.to_bits() & $exponent == $exponent)
            }
        }
    )*};
}

bits! { f32: 0x7f80_0000, f64: 0x7ff0_0000_0000_0000, f16: 0x7c00, bf16: 0x7f80 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_wherever_it_is() {
        for len in [1, 7, 64, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5] {
            let mut values = vec![f32::MAX; len];
            values[0] = -0.0;
            values[len / 2] = f32::MIN_POSITIVE / 2.0;
            assert_eq!(not_finite_in(&values), None);
            for (bad, what) in
                [(f32::NAN, "NaN"), (-f32::NAN, "NaN"), (f32::NEG_INFINITY, "infinity")]
            {
                for at in [len - 1, len / 2, 0] {
                    values[at] = bad;
                    assert_eq!(not_finite_in(&values), Some(NotFinite { at, what }), "of {len}");
                }
                values.fill(1.0);
            }
        }
        assert_eq!(not_finite_in(&[]), None);
    }

    #[test]
    fn every_type_of_number_is_looked_at() {
        fn one<T: Element>(bad: T) -> Option<NotFinite> {
            not_finite(
                &Tensor::from_slice([3], &[T::from_f64(1.0), bad, T::from_f64(2.0)]).unwrap(),
            )
        }
        let nan = Some(NotFinite { at: 1, what: "NaN" });
        assert_eq!(
            (one(f32::NAN), one(f64::NAN), one(f16::NAN), one(bf16::NAN)),
            (nan, nan, nan, nan)
        );
        let infinite = Some(NotFinite { at: 1, what: "infinity" });
        assert_eq!((one(f64::INFINITY), one(bf16::NEG_INFINITY)), (infinite, infinite));
        assert_eq!((one(f16::MAX), one(bf16::MIN), one(i64::MAX)), (None, None, None));
    }
}
