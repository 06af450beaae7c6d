//! Division by a number that is known when an op is lowered, as kernels do it (`kernels/tables.cuh`).

/// What a kernel divides by `by` with, where dividends are below 2^31: a multiplication and a shift.
///
/// # Panics
/// When `by` is zero, or 2^31 and more.
pub(crate) fn divider(by: usize) -> [u32; 3] {
    assert!(by > 0 && by < 1 << 31, "a divisor fits 31 bits");
    let (by, shift) = (by as u64, by.next_power_of_two().trailing_zeros());
    let magic = ((1u64 << 32) * ((1u64 << shift) - by) / by + 1) as u32;
    [by as u32, magic, shift]
}

/// The most that a kernel can divide: one less than this.
pub(super) const MAX_DIVIDEND: usize = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_multiplication_and_a_shift_divide() {
        let quotient = |x: u32, [_, magic, shift]: [u32; 3]| {
            let high = ((u64::from(magic) * u64::from(x)) >> 32) as u32;
            (high + x) >> shift
        };
        for by in (1..300).chain([429, 4096, 65_537, 1_000_003, (1 << 31) - 1]) {
            let divider = divider(by);
            for x in (0..1000u32).chain([65_535, 1 << 20, 123_456_789, (1 << 31) - 1]) {
                assert_eq!(quotient(x, divider), x / by as u32, "{x} / {by}");
            }
        }
    }
}
