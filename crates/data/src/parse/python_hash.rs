//! The hash that Python has for a string when it is not made random (`PYTHONHASHSEED=0`).
//!
//! PaddleRec's Criteo readers spread words over ids by Python's `hash`, which differs from run to
//! run unless that variable is set. Since Python 3.11 it is SipHash-1-3, whose key is then zero.

/// The most bytes of a word.
pub(super) const MAX_WORD: usize = 64;

/// Python's `hash(word) % space` of a word of ASCII characters, the first `len` bytes of `word`; the
/// others are zeros.
#[inline]
pub(super) fn modulo(word: &[u8; MAX_WORD], len: usize, space: u64) -> u64 {
    let signed = match len {
        0 => 0,
        _ => sip13(word, len) as i64,
    };
    // Python keeps -1 for errors.
    let signed = if signed == -1 { -2 } else { signed };
    match signed {
        0.. => signed as u64 % space,
        _ => {
            // The remainder has the sign of the divisor, as always in Python.
            let rest = signed.unsigned_abs() % space;
            if rest == 0 { 0 } else { space - rest }
        }
    }
}

/// SipHash-1-3 with a key of zeros.
#[inline]
fn sip13(word: &[u8; MAX_WORD], len: usize) -> u64 {
    let mut state = [
        0x736f_6d65_7073_6575_u64,
        0x646f_7261_6e64_6f6d,
        0x6c79_6765_6e65_7261,
        0x7465_6462_7974_6573,
    ];
    let (words, _) = word.as_chunks();
    for &word in &words[..len / 8] {
        compress(&mut state, u64::from_le_bytes(word));
    }
    // Behind the word are zeros, and a whole word of none is left where its end is one of ours.
    let rest = words.get(len / 8).map_or(0, |&word| u64::from_le_bytes(word));
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
        let hash = |word: &str, space| {
            let mut bytes = [0; MAX_WORD];
            bytes[..word.len()].copy_from_slice(word.as_bytes());
            modulo(&bytes, word.len(), space)
        };
        let hashes = words.map(|word| hash(word, 1_000_001));
        assert_eq!(hashes, [769_538, 751_130, 0, 323_469, 743_508, 214_488]);
        assert_eq!(hash("14", 1), 0);
    }
}
