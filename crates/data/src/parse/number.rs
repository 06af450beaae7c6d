//! Ids and numbers from text, exact: eight digits at a time where there are eight bytes to look at.
//!
//! Every function takes the text and where the token starts, and returns the value and where the
//! token ended, which is at white space or at the end of the text; `None` when the token is not what
//! it should be.

/// What `0123456789` have in common, in every byte.
const ZEROS: u64 = 0x3030_3030_3030_3030;
/// The most digits whose value always fits 63 bits.
const MAX_DIGITS: usize = 18;
/// Powers of ten, which a `f64` holds exactly.
const TENS: [f64; 17] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16];
/// Those that a `f32` holds exactly.
const SHORT_TENS: [f32; 11] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];
const WHOLE_TENS: [u64; 9] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Whether a byte ends a token.
#[inline(always)]
pub(super) fn is_space(byte: u8) -> bool {
    const SPACES: u64 = 1 << b' ' | 1 << b'\n' | 1 << b'\t' | 1 << b'\r';
    byte <= b' ' && SPACES >> byte & 1 == 1
}

#[inline(always)]
fn ends(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|&byte| is_space(byte))
}

/// An unsigned number of 64 bits, or a negative one of `int64`, which keeps its bits.
#[inline(always)]
pub(super) fn id(text: &[u8], at: usize) -> Option<(u64, usize)> {
    if let Some((value, count @ 1..8)) = up_to_eight(text, at)
        && is_space(text[at + count])
    {
        return Some((value, at + count));
    }
    long_id(text, at)
}

/// The same for tokens that are long, negative, wrong, or at the end of the text.
#[inline(never)]
fn long_id(text: &[u8], start: usize) -> Option<(u64, usize)> {
    let negative = text.get(start) == Some(&b'-');
    let first = start + usize::from(negative);
    let (mut value, mut at) = (0_u64, first);
    while let Some((more, count @ 1..)) = up_to_eight(text, at)
        && at + count - first <= MAX_DIGITS
    {
        value = value * WHOLE_TENS[count] + more;
        at += count;
        if count < 8 {
            break;
        }
    }
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&d| d < 10) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        at += 1;
    }
    if at == first || !ends(text, at) {
        return None;
    }
    match negative {
        true if value > 1 << 63 => None,
        true => Some((value.wrapping_neg(), at)),
        false => Some((value, at)),
    }
}

/// The finite `f32` that is nearest to a decimal number.
#[inline(always)]
pub(super) fn float(text: &[u8], start: usize) -> Option<(f32, usize)> {
    let negative = text.get(start) == Some(&b'-');
    match decimal(text, start + usize::from(negative)) {
        Some((value, end)) => Some((if negative { -value } else { value }, end)),
        None => any_float(text, start),
    }
}

/// `float` for up to 7 digits, a point and up to 16 digits, with text behind them.
#[inline(always)]
fn decimal(text: &[u8], at: usize) -> Option<(f32, usize)> {
    let (whole, count @ 1..8) = up_to_eight(text, at)? else { return None };
    let point = at + count;
    if text[point] != b'.' {
        // Seven digits are exact.
        return is_space(text[point]).then_some((whole as f32, point));
    }
    let (mut digits, mut places) = up_to_eight(text, point + 1)?;
    if places == 8
        && let (more, count @ 1..) = up_to_eight(text, point + 9)?
    {
        digits = digits * WHOLE_TENS[count] + more;
        places += count;
    }
    let end = point + 1 + places;
    if places == 0 || count + places > MAX_DIGITS || !is_space(*text.get(end)?) {
        return None;
    }
    let tens = WHOLE_TENS[places.min(8)] * WHOLE_TENS[places - places.min(8)];
    // Below 2^63, as a processor converts best.
    let value = (whole * tens + digits) as i64;
    if value < 1 << 24 && places < SHORT_TENS.len() {
        // Both are exact, so the quotient is the nearest.
        return Some((value as f32 / SHORT_TENS[places], end));
    }
    nearest(value as f64 / TENS[places]).map(|value| (value, end))
}

/// The `f32` nearest to a number that is at most three units in the last place away from `value`,
/// if that is certain.
///
/// Rounding again goes wrong only where the number may lie on the other side of the middle of two
/// neighbours, whose lower 29 bits are a one and zeros.
#[inline(always)]
fn nearest(value: f64) -> Option<f32> {
    const MIDDLE: u64 = 1 << 28;
    let lower = value.to_bits() & ((1 << 29) - 1);
    (lower.abs_diff(MIDDLE) > 4).then_some(value as f32)
}

/// A count of one digit, which most are, with a space behind it; `None` says nothing.
#[inline(always)]
pub(super) fn short_count(text: &[u8], at: usize) -> Option<u64> {
    match text.get(at..)?.first_chunk()? {
        &[digit @ b'1'..=b'9', b' '] => Some(u64::from(digit - b'0')),
        _ => None,
    }
}

/// Any other number, by the exact method of the standard library.
#[inline(never)]
fn any_float(text: &[u8], at: usize) -> Option<(f32, usize)> {
    let token = super::token_at(text, at);
    let value: f32 = std::str::from_utf8(token).ok()?.parse().ok()?;
    value.is_finite().then_some((value, at + token.len()))
}

/// Value and number of the digits from `at` on, the first eight of them at most; `None` where there
/// are less than eight bytes to look at, digits or not. Of no digits the value means nothing.
#[inline(always)]
fn up_to_eight(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let bytes = u64::from_le_bytes(*text.get(at..)?.first_chunk()?);
    let digits = bytes ^ ZEROS;
    let count = (others(digits).trailing_zeros() / 8) as usize;
    // Zeros in front of the digits, so that there are always eight.
    Some((value_of(digits.wrapping_shl(64 - 8 * count as u32)), count))
}

/// The number of eight digits from 0 to 9, the first one in the lowest byte.
#[inline(always)]
fn value_of(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let (mask, high, low) = (0x0000_00FF_0000_00FF, 0x000F_4240_0000_0064, 0x0000_2710_0000_0001);
    (pairs & mask).wrapping_mul(high).wrapping_add(((pairs >> 16) & mask).wrapping_mul(low)) >> 32
}

/// The highest bits of the bytes that are not 0 to 9; behind the first of them, perhaps of others.
#[inline(always)]
fn others(digits: u64) -> u64 {
    // Adding 0x76 to anything above 9 sets its highest bit; a carry reaches only bytes behind it.
    (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080
}

/// The same, and of no others.
#[inline(always)]
fn exact_others(digits: u64) -> u64 {
    let lower = digits & 0x7f7f_7f7f_7f7f_7f7f;
    ((lower + 0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080
}

/// As [`id`], but what stands behind a short number is for the caller to check.
#[inline(always)]
pub(super) fn plain_id(text: &[u8], at: usize) -> Option<(u64, usize)> {
    match up_to_eight(text, at) {
        Some((value, count @ 1..8)) => Some((value, at + count)),
        _ => id(text, at),
    }
}

/// As [`float`], but what white space stands behind a short number is for the caller to check.
#[inline(always)]
pub(super) fn plain_float(text: &[u8], at: usize) -> Option<(f32, usize)> {
    match short_decimal(text, at) {
        Some(found) => Some(found),
        None => float(text, at),
    }
}

/// A decimal number of up to eight characters, one of which is a point; `None` says nothing.
#[inline(always)]
fn short_decimal(text: &[u8], at: usize) -> Option<(f32, usize)> {
    const POINT: u64 = (b'.' ^ b'0') as u64;
    let bytes = text.get(at..at + 9)?.first_chunk()?;
    let digits = u64::from_le_bytes(*bytes) ^ ZEROS;
    // Bits of the bytes that are no digits: the point, and what ends the number.
    let others = exact_others(digits);
    let (point, rest) = (others.trailing_zeros() & !7, others & others.wrapping_sub(1));
    let end = rest.trailing_zeros() & !7;
    // The digits before the point take its place.
    let before = digits & !u64::MAX.unbounded_shl(point);
    let after = digits & u64::MAX.unbounded_shl(point + 8);
    let all = (before << 8 | after).unbounded_shl(64 - end);
    let behind = *text.get(at + end as usize / 8)?;
    if digits.unbounded_shr(point) & 0xff != POINT || end < 16 || behind > b' ' {
        return None;
    }
    // Seven digits and a power of ten, both exact, so the quotient is the nearest.
    let places = ((end - point) / 8 - 1) as usize;
    Some((value_of(all) as i64 as f32 / SHORT_TENS[places], at + end as usize / 8))
}

/// The value of a whole number of less than eight characters, with its sign, and where it ends;
/// without digits zero. What stands behind it is for the caller to check.
#[inline(always)]
pub(super) fn short_number(text: &[u8], at: usize) -> Option<(i64, usize)> {
    let (value, count) = up_to_eight(text, at)?;
    if count == 0 {
        return signed(text, at);
    }
    (count < 8).then_some((value as i64, at + count))
}

/// The same for what does not start with a digit.
#[inline(always)]
fn signed(text: &[u8], at: usize) -> Option<(i64, usize)> {
    if text[at] != b'-' {
        return Some((0, at));
    }
    // Zero has no sign here, and would need it.
    let (value @ 1.., count @ 1..8) = up_to_eight(text, at + 1)? else { return None };
    Some((-(value as i64), at + 1 + count))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check_id(token: &str) -> Option<u64> {
        let alone = id(token.as_bytes(), 0);
        for after in [" ", "\n", " 12345678", "\t1", "\r\n12345678 "] {
            assert_eq!(id(format!("{token}{after}").as_bytes(), 0), alone, "{token:?}");
        }
        let found = alone.map(|(value, end)| {
            assert_eq!(end, token.len());
            value
        });
        for after in [" ", " 1 2 3 4 5", "\n1 2 3 4 5 6 7 8 9"] {
            let text = format!("{token}{after}");
            let plain = plain_id(text.as_bytes(), 0).filter(|&(_, end)| end == token.len());
            assert_eq!(plain.map(|(value, _)| value), found, "{text:?}");
        }
        found
    }

    fn check_float(token: &str) -> Option<f32> {
        let alone = float(token.as_bytes(), 0).map(|(value, end)| (value.to_bits(), end));
        for after in [" ", "\n", " 1:1 2:2 3:3 4:4 5:5 6:6", "\r\n12345678"] {
            let text = format!("{token}{after}");
            let found = float(text.as_bytes(), 0).map(|(value, end)| (value.to_bits(), end));
            assert_eq!(found, alone, "{token:?}");
        }
        let found = alone.map(|(value, end)| {
            assert_eq!(end, token.len());
            value
        });
        for after in [" ", " 1 2 3 4 5", "\n1 2 3 4 5 6 7 8 9"] {
            let text = format!("{token}{after}");
            let plain = plain_float(text.as_bytes(), 0).filter(|&(_, end)| end == token.len());
            assert_eq!(plain.map(|(value, _)| value.to_bits()), found, "{text:?}");
        }
        found.map(f32::from_bits)
    }

    #[test]
    fn short_numbers_have_a_sign_or_nothing() {
        let short = |token: &str| {
            let text = format!("{token}\t\t\t\t\t\t\t\t\t");
            let found = short_number(text.as_bytes(), 0).filter(|&(_, end)| end == token.len());
            found.map(|(value, _)| value)
        };
        for value in [0, 7, -1, -999_999, 9_999_999, 120] {
            assert_eq!(short(&value.to_string()), Some(value));
        }
        assert_eq!(short(""), Some(0));
        for wrong in ["-", "-0", "--1", "+1", "1.5", "123456789", "x", "1-"] {
            assert_eq!(short(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ids_are_exact_or_nothing() {
        for value in [0, 7, 9_999_999, 10_000_000, 99_999_999, 123_456_789_012_345_678, u64::MAX] {
            assert_eq!(check_id(&value.to_string()), Some(value));
        }
        assert_eq!(check_id("000000000000000000000000000017"), Some(17));
        assert_eq!(check_id("-1"), Some(u64::MAX));
        assert_eq!(check_id("-9223372036854775808"), Some(1 << 63));
        let wrong = ["", "-", "+1", "1.0", "1e3", "0x1f", "12345678x", "1,2", "٣", "--1"];
        let large = ["18446744073709551616", "99999999999999999999999", "-9223372036854775809"];
        for wrong in wrong.iter().chain(&large) {
            assert_eq!(check_id(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn numbers_are_the_nearest_ones() {
        // The middle of two floats, and what lies just beside it: 2^24 + 1.
        for (token, value) in [
            ("0.163941", 0.163_941_f32),
            ("0.00663349917081", 0.006_633_499_f32),
            ("-0.0", -0.0),
            ("1e-45", f32::from_bits(1)),
            ("16777217.0", 16_777_216.0),
            ("16777217.00000001", 16_777_218.0),
            ("16777216.99999999", 16_777_216.0),
            ("340282350000000000000000000000000000000", f32::MAX),
            (".5", 0.5),
            ("+5.", 5.0),
        ] {
            assert_eq!(check_float(token).map(f32::to_bits), Some(value.to_bits()), "{token}");
        }
        for wrong in
            ["", "-", ".", "1..2", "nan", "inf", "1e39", "0x1", "1_0", "1.2.3", "--1", "1-"]
        {
            assert_eq!(check_float(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_id_survives(value in any::<u64>(), shift in 0_u32..64) {
            prop_assert_eq!(check_id(&(value >> shift).to_string()), Some(value >> shift));
        }

        #[test]
        fn floats_agree_with_the_standard_library(token in "-?[0-9]{0,9}(\\.[0-9]{0,18})?|[0-9]{0,4}\\.[0-9.]{0,4}") {
            let expected = token.parse::<f32>().ok();
            prop_assert_eq!(check_float(&token).map(f32::to_bits), expected.map(f32::to_bits));
        }

        #[test]
        fn floats_written_shortly_or_fully_read_back(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            for token in [format!("{value}"), format!("{value:e}"), format!("{}", f64::from(value))] {
                prop_assert_eq!(check_float(&token).map(f32::to_bits), Some(bits));
            }
        }

        /// Decimals in the middle of two floats or beside it are where rounding twice goes wrong.
        #[test]
        fn halves_round_as_the_standard_library_does(bits in 0x3d00_0000_u32..0x4980_0000, up in -1_i64..=1) {
            let low = f64::from(f32::from_bits(bits));
            let middle = f64::midpoint(low, f64::from(f32::from_bits(bits + 1)));
            let token = format!("{:.16}", f64::from_bits((middle.to_bits() as i64 + up) as u64));
            let expected: f32 = token.parse().unwrap();
            prop_assert_eq!(check_float(&token).map(f32::to_bits), Some(expected.to_bits()));
        }
    }
}
