//! The hash that Python has for a string when it is not made random (`PYTHONHASHSEED=0`).
//!
//! PaddleRec's Criteo readers spread words over ids by Python's `hash`, which differs from run to
//! run unless that variable is set. Since Python 3.11 it is SipHash-1-3, whose key is then zero.

/// The state of SipHash whose key is zeros.
const START: [u64; 4] =
    [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];

/// Words that are hashed beside each other where vectors allow it.
pub(super) const HASHES: usize = 4;

/// Python's `hash(word) % space`, for words of ASCII characters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    space: u64,
    /// 2^64 modulo the space.
    wrapped: u64,
    /// 2^64 - 1 over the space, rounded down.
    inverse: u64,
}

impl Spread {
    /// Over ids below `space`, which is not zero.
    pub(super) fn over(space: u64) -> Spread {
        let wrapped = (u64::MAX % space + 1) % space;
        Spread { space, wrapped, inverse: u64::MAX / space }
    }

    /// The id of a word.
    pub(super) fn id(self, word: &[u8]) -> u64 {
        if word.is_empty() {
            return 0;
        }
        let mut state = START;
        let (words, rest) = word.as_chunks();
        for &word in words {
            compress(&mut state, u64::from_le_bytes(word));
        }
        let rest = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        self.modulo(finish(state, word.len(), rest))
    }

    /// The id of a word of ten bytes, given as its first two and its last eight.
    #[inline(always)]
    pub(super) fn id_of_ten(self, first: [u8; 2], last: u64) -> u64 {
        self.modulo(hash_of_ten(u16::from_le_bytes(first).into(), last))
    }

    /// The ids of many words of ten bytes, given as their first two and their last eight; best a
    /// multiple of [`HASHES`].
    #[inline(always)]
    pub(super) fn ids_of_ten<const N: usize>(self, first: &[u64; N], last: &[u64; N]) -> [u64; N] {
        let mut ids = [0; N];
        // A loop of its own, which vectors do for several words at once.
        for ((id, first), last) in ids.iter_mut().zip(first).zip(last) {
            *id = hash_of_ten(*first, *last);
        }
        for id in &mut ids {
            *id = self.modulo(*id);
        }
        ids
    }

    /// The remainder of a hash, which Python takes for a signed number; it has the sign of the
    /// divisor. Half of all hashes are negative, so no branch asks.
    #[inline(always)]
    fn modulo(self, hash: u64) -> u64 {
        // Python keeps -1 for errors.
        let hash = if hash == u64::MAX { u64::MAX - 1 } else { hash };
        let rest = self.remainder(hash);
        let wrapped = if hash >> 63 == 1 { self.wrapped } else { 0 };
        let more = if rest < wrapped { self.space } else { 0 };
        rest.wrapping_sub(wrapped).wrapping_add(more)
    }

    /// `hash % space` without a division.
    #[inline(always)]
    fn remainder(self, hash: u64) -> u64 {
        // The product of inverse and space lacks at most the space to 2^64, so the quotient lacks
        // one at most.
        let quotient = ((u128::from(hash) * u128::from(self.inverse)) >> 64) as u64;
        let rest = hash - quotient * self.space;
        if rest >= self.space { rest - self.space } else { rest }
    }
}

/// The hash of a word of ten bytes, given as its first two and its last eight.
#[inline(always)]
fn hash_of_ten(first: u64, last: u64) -> u64 {
    let mut state = START;
    compress(&mut state, first | last << 16);
    finish(state, 10, last >> 48)
}

/// The hash when only the last bytes, less than eight, are left.
#[inline(always)]
fn finish(mut state: [u64; 4], len: usize, rest: u64) -> u64 {
    compress(&mut state, (len as u64) << 56 | rest);
    state[2] ^= 0xff;
    for _ in 0..3 {
        round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

#[inline(always)]
fn compress(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

#[inline(always)]
fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *c = c.wrapping_add(*d);
    *b = b.rotate_left(13) ^ *a;
    *d = d.rotate_left(16) ^ *c;
    *a = a.rotate_left(32).wrapping_add(*d);
    *c = c.wrapping_add(*b);
    *d = d.rotate_left(21) ^ *a;
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PYTHONHASHSEED=0 python3.11 -c "print([hash(w) % 1000001 for w in WORDS])"`.
    #[test]
    fn words_have_the_hash_that_python_gives_them() {
        let words =
            ["1468fd1e64", "14", "", "3949d746ad", "20fe6b92e5abcdefgh", "2212345678901234"];
        let hashes = words.map(|word| Spread::over(1_000_001).id(word.as_bytes()));
        assert_eq!(hashes, [769_538, 751_130, 0, 323_469, 743_508, 214_488]);
        let last = u64::from_le_bytes(*b"68fd1e64");
        assert_eq!(Spread::over(1_000_001).id_of_ten(*b"14", last), 769_538);
        assert_eq!(Spread::over(1).id(b"14"), 0);
    }

    #[test]
    fn many_words_have_the_hashes_that_each_has_alone() {
        let spread = Spread::over(1_000_001);
        let (first, mut last) =
            ([u64::from(u16::from_le_bytes(*b"21")); 2 * HASHES], [0; 2 * HASHES]);
        let mut word = 0x3031_3233_3435_3637_u64;
        for _ in 0..1000 {
            for last in &mut last {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *last = word;
            }
            let ids = last.map(|last| spread.id_of_ten(*b"21", last));
            assert_eq!(spread.ids_of_ten(&first, &last), ids);
        }
    }

    #[test]
    fn the_remainder_is_that_of_a_signed_number() {
        for space in
            [1, 2, 3, 7, 1 << 32, 1_000_001, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX]
        {
            for hash in [0, 1, 5, u64::MAX - 1, u64::MAX, 1 << 63, (1 << 63) - 1, 0x9e37 << 48] {
                let signed = i128::from(if hash == u64::MAX { -2 } else { hash as i64 });
                let expected = signed.rem_euclid(i128::from(space)) as u64;
                assert_eq!(Spread::over(space).modulo(hash), expected, "{hash} % {space}");
            }
        }
    }
}
