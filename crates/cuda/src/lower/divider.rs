//! Division by a number that is known when an op is lowered, as kernels do it (`kernels/divider.cuh`).

/// What a kernel divides with: the divisor, a factor and a shift.
pub(crate) type Divider = [u32; 3];

/// What a kernel divides numbers below 2^31 by `by` with. By 0 nothing is divided, as there is nothing then.
pub(crate) fn divider(by: usize) -> Divider {
    if by >= MAX_DIVIDEND {
        // Every quotient is 0.
        return [u32::MAX, 0, 31];
    }
    let by = by.max(1) as u64;
    let shift = by.next_power_of_two().trailing_zeros();
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
        let quotient = |x: u32, [_, magic, shift]: Divider| {
            let high = ((u64::from(magic) * u64::from(x)) >> 32) as u32;
            (high + x) >> shift
        };
        for by in (1..300).chain([429, 641, 4096, 65_537, 1_000_003, 6_700_417, (1 << 31) - 1]) {
            let divider = divider(by);
            let multiples = (1..5).flat_map(|x| [x * by as u64, x * by as u64 - 1]);
            let multiples = multiples.map(|x| x.min((1 << 31) - 1) as u32);
            let some = [65_535, 65_536, 1 << 20, 123_456_789, (1 << 31) - 1];
            for x in (0..1000u32).chain(some).chain(multiples) {
                assert_eq!(quotient(x, divider), x / by as u32, "{x} / {by}");
            }
        }
        for (by, x) in [(0, 7), (1 << 31, 0), (1 << 40, 0)] {
            assert_eq!(quotient(7, divider(by)), x, "7 / {by}");
        }
    }
}
