//! `exp` and `tanh` in single precision without branches, so that loops over them vectorise.
//!
//! Largest errors, tested on every 997th float: [`exp`] 1.5 units in the last place where the result
//! is a normal number, [`tanh`] 2. Overflow gives infinity, underflow goes through the subnormal
//! numbers to zero, NaN stays NaN.

/// `e` to the power of `x`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two pieces; products of the first with integers up to 2^8 are exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Beyond these the result is 0 or infinity. Written so that NaN passes.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    // Minimax polynomial of (exp(r) - 1 - r) / r^2 on |r| <= ln(2) / 2 (Cephes).
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let mantissa = p * (r * r) + r + 1.0;
    // Two factors, because 2^n alone may lie outside the normal numbers.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    mantissa * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// The hyperbolic tangent.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    // Both ways are computed and one is taken, which costs less than a branch in a vector loop.
    let square = x * x;
    // Minimax polynomial of (tanh(x) - x) / x^3 on |x| < 0.625 (Cephes).
    let p = -5.704_988_7e-3;
    let p = p * square + 2.063_909e-2;
    let p = p * square - 5.373_972e-2;
    let p = p * square + 1.333_144_2e-1;
    let p = p * square - 3.333_328e-1;
    let small = p * square * x + x;
    let large = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    if x.abs() < 0.625 { small } else { large.copysign(x) }
}

#[cfg(test)]
mod tests {
    fn ulps(value: f32, exact: f64) -> f64 {
        let unit = f64::from((exact as f32).abs().next_up()) - f64::from((exact as f32).abs());
        (f64::from(value) - exact).abs() / unit
    }

    #[test]
    fn errors_stay_within_the_stated_bounds() {
        for bits in (0..0x42c0_0000u32).step_by(997) {
            for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
                let exact = f64::from(x).exp();
                if exact > f64::from(f32::MIN_POSITIVE) && exact < f64::from(f32::MAX) {
                    assert!(ulps(super::exp(x), exact) <= 1.5, "exp({x})");
                }
                assert!(ulps(super::tanh(x), f64::from(x).tanh()) <= 2.0, "tanh({x})");
            }
        }
    }

    #[test]
    fn the_ends_are_right() {
        assert_eq!(super::exp(0.0), 1.0);
        assert_eq!(super::exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(super::exp(89.0), f32::INFINITY);
        assert_eq!(super::exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(super::exp(-104.0), 0.0);
        assert!(super::exp(-100.0) > 0.0);
        assert!(super::exp(f32::NAN).is_nan() && super::tanh(f32::NAN).is_nan());
        assert_eq!(super::tanh(f32::NEG_INFINITY), -1.0);
        assert_eq!(super::tanh(0.0), 0.0);
    }
}
