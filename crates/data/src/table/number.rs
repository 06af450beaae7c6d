//! Numbers as tables have them: the `f64` nearest to what is written.

/// The largest power of ten that a `f64` holds exactly, and those below.
const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];
/// Whole numbers up to here are exact.
const EXACT: u64 = 1 << 53;
/// Digits that fit 64 bits, whatever they are.
const MAX_DIGITS: usize = 19;

/// A finite number.
#[inline]
pub(super) fn number(cell: &[u8]) -> Option<f64> {
    let (negative, digits) = match cell {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (mut value, mut places, mut count, mut point) = (0_u64, 0, 0, false);
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        match digit {
            0..=9 if count < MAX_DIGITS => {
                value = 10 * value + u64::from(digit);
                count += 1;
                places += usize::from(point);
            }
            _ if byte == b'.' && !point => point = true,
            _ => return any(cell),
        }
    }
    if count == 0 || value > EXACT || places >= TENS.len() {
        return any(cell);
    }
    // Both are exact, so the quotient is the nearest.
    let value = value as f64 / TENS[places];
    Some(if negative { -value } else { value })
}

/// Any other number, by the method of the standard library.
#[cold]
fn any(cell: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(cell).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_finite_or_nothing() {
        for (cell, value) in [("0", 0.0), ("-17", -17.0), ("0.1", 0.1), (".5", 0.5), ("1e3", 1e3)] {
            assert_eq!(number(cell.as_bytes()), Some(value), "{cell}");
        }
        for wrong in ["", "-", ".", "nan", "inf", "1e999", "12a", "1,5", "0x10", "--1", "1 2"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn numbers_agree_with_the_standard_library(cell in "-?[0-9]{0,20}(\\.[0-9]{0,24})?") {
            let expected = cell.parse::<f64>().ok();
            prop_assert_eq!(number(cell.as_bytes()).map(f64::to_bits), expected.map(f64::to_bits));
        }
    }
}
