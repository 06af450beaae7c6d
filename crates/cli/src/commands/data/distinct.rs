//! How many different ids there are, in 4 KiB for any number of them (HyperLogLog).

/// Bits of a hash that choose a register.
const INDEX_BITS: u32 = 12;
const REGISTERS: usize = 1 << INDEX_BITS;

/// An estimate with a standard error of 1.6 %; nearly exact below some thousands.
#[derive(Clone, Debug)]
pub(super) struct Distinct {
    registers: Box<[u8; REGISTERS]>,
}

impl Default for Distinct {
    fn default() -> Distinct {
        Distinct { registers: Box::new([0; REGISTERS]) }
    }
}

impl Distinct {
    /// Counts an id, unless it was counted before.
    #[inline]
    pub(super) fn add(&mut self, id: u64) {
        let hash = mix(id);
        let register = &mut self.registers[(hash >> (64 - INDEX_BITS)) as usize];
        // The ones at the end stop the count where no bits are left.
        let zeros = ((hash << INDEX_BITS) | ((1 << INDEX_BITS) - 1)).leading_zeros() as u8 + 1;
        *register = zeros.max(*register);
    }

    /// About how many different ids were counted.
    pub(super) fn estimate(&self) -> f64 {
        let count = REGISTERS as f64;
        let empty = self.registers.iter().filter(|&&register| register == 0).count();
        let sum: f64 = self.registers.iter().map(|&register| (-f64::from(register)).exp2()).sum();
        let estimate = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
        if estimate <= 2.5 * count && empty > 0 {
            // So few that many registers are empty: how many says more.
            return count * (count / empty as f64).ln();
        }
        estimate
    }
}

/// Spreads ids that differ little over all bits (the end of SplitMix64).
fn mix(id: u64) -> u64 {
    let mut hash = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_near_for_few_and_for_many() {
        for count in [0_u64, 1, 2, 1000, 10_000, 50_000, 1_000_000] {
            let mut distinct = Distinct::default();
            (0..count).chain(0..count / 2).for_each(|id| distinct.add(id * 17));
            let estimate = distinct.estimate();
            let error = (estimate - count as f64).abs() / (count.max(1) as f64);
            assert!(error < 0.05, "{count}: {estimate}");
        }
    }
}
