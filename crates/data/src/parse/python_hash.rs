//! The hash that Python has for a string when it is not made random (`PYTHONHASHSEED=0`).
//!
//! PaddleRec's Criteo readers spread words over ids by Python's `hash`, which differs from run to
//! run unless that variable is set. Since Python 3.11 it is SipHash-1-3, whose key is then zero.

/// Python's `hash(word) % space` of a word of ASCII characters.
pub(super) fn modulo(word: &[u8], space: u64) -> u64 {
    let signed = match word {
        [] => 0,
        _ => sip13(word) as i64,
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
fn sip13(bytes: &[u8]) -> u64 {
    let mut state = [
        0x736f_6d65_7073_6575_u64,
        0x646f_7261_6e64_6f6d,
        0x6c79_6765_6e65_7261,
        0x7465_6462_7974_6573,
    ];
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        compress(&mut state, chunk.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    }
    let rest = chunks.remainder();
    let rest = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    compress(&mut state, (bytes.len() as u64) << 56 | rest);
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
        let hashes = words.map(|word| modulo(word.as_bytes(), 1_000_001));
        assert_eq!(hashes, [769_538, 751_130, 0, 323_469, 743_508, 214_488]);
        assert_eq!(modulo(b"14", 1), 0);
    }
}
