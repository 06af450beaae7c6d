//! The hash that gives words their ids: a part of every saved model, so it never changes.
//!
//! Folded products of 64 bits, as in wyhash: a word of one column costs a few multiplications, and
//! the columns have seeds of their own, so that a word means something else in each.

/// Odd numbers with bits spread evenly.
const FACTORS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// The hash of a word.
#[inline(always)]
pub(super) fn hash(seed: u64, word: &[u8]) -> u64 {
    let mut state = seed ^ FACTORS[0].wrapping_mul(word.len() as u64 + 1);
    let mut rest = word;
    while let Some((first, others)) = rest.split_first_chunk::<8>() {
        state = fold(state ^ u64::from_le_bytes(*first), FACTORS[1]);
        rest = others;
    }
    fold(fold(state ^ tail(rest), FACTORS[2]) ^ seed, FACTORS[3])
}

/// One of so many numbers, from 0, by the upper bits of a hash.
#[inline(always)]
pub(super) fn spread(hash: u64, over: u64) -> u64 {
    ((u128::from(hash) * u128::from(over)) >> 64) as u64
}

/// Less than eight bytes as one number; the length of the word tells apart what looks alike here.
#[inline(always)]
fn tail(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        _ => match bytes {
            [] => 0,
            _ => {
                let at = |index: usize| u64::from(bytes[index]);
                at(0) | at(bytes.len() / 2) << 8 | at(bytes.len() - 1) << 16
            }
        },
    }
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_word_is_what_saved_models_have() {
        let all = ["", "a", "ab", "abc", "abcd", "abcdefg", "abcdefgh", "United-States"];
        let hashes = all.map(|word| hash(7, word.as_bytes()));
        let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_ne!(hash(7, b"a"), hash(8, b"a"));
        assert_eq!(hashes[7], 344_304_532_696_442_417);
    }

    #[test]
    fn words_are_spread_evenly() {
        let mut counts = [0_u32; 16];
        for word in 0..16_000 {
            counts[spread(hash(1, word.to_string().as_bytes()), 16) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (880..1120).contains(&count)), "{counts:?}");
    }
}
