//! Counter-based random numbers: Philox 4x32-10 (Salmon et al., 2011).
//!
//! A number depends only on its key (seed and variable) and its position, never on what was drawn
//! before. So an initial value is the same however a parameter is sliced, and a dropout mask is the
//! same however a batch is split.

mod row_init;

pub use row_init::RowInit;

/// A stream of random numbers that can be read at any position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    key: [u32; 2],
    /// The upper half of the counter: which of the key's streams this is (a step, a row's key).
    stream: u64,
}

impl Philox {
    /// The stream of variable `name` under `seed`.
    pub fn new(seed: u64, name: &str) -> Philox {
        // A finaliser, so that names that differ in one letter share nothing.
        let mixed = mix(hash_of(name) ^ mix(seed));
        Philox { key: [mixed as u32, (mixed >> 32) as u32], stream: 0 }
    }

    /// What the generator is keyed by: all that a card needs to draw the same numbers.
    pub fn key(&self) -> [u32; 2] {
        self.key
    }

    /// The sub-stream with this number: one a step, or one a table row.
    pub fn stream(self, stream: u64) -> Philox {
        Philox { stream, ..self }
    }

    /// The four words at position `block` of the stream.
    pub fn words(&self, block: u64) -> [u32; 4] {
        let mut counter =
            [block as u32, (block >> 32) as u32, self.stream as u32, (self.stream >> 32) as u32];
        let mut key = self.key;
        for _ in 0..10 {
            let a = u64::from(counter[0]) * 0xd251_1f53;
            let b = u64::from(counter[2]) * 0xcd9e_8d57;
            counter = [
                (b >> 32) as u32 ^ counter[1] ^ key[0],
                b as u32,
                (a >> 32) as u32 ^ counter[3] ^ key[1],
                a as u32,
            ];
            key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        }
        counter
    }

    /// Element `index` of the stream, uniform in [0, 1).
    pub fn uniform(&self, index: u64) -> f32 {
        unit(self.words(index / 4)[(index % 4) as usize])
    }

    /// Element `index` of the stream as a 64-bit integer.
    pub fn u64(&self, index: u64) -> u64 {
        let words = self.words(index / 2);
        let pair = (index % 2) as usize * 2;
        u64::from(words[pair]) | u64::from(words[pair + 1]) << 32
    }

    /// Element `index` of the stream, normal with mean 0 and variance 1.
    pub fn normal(&self, index: u64) -> f32 {
        let words = self.words(index / 4);
        let pair = (index % 4) as usize / 2 * 2;
        // Box and Muller: the two words of a pair give two independent normals.
        let radius = (-2.0 * (1.0 - f64::from(unit(words[pair]))).ln()).sqrt();
        let angle = std::f64::consts::TAU * f64::from(unit(words[pair + 1]));
        (radius * if index.is_multiple_of(2) { angle.cos() } else { angle.sin() }) as f32
    }

    /// Element `index` of the stream, normal but within two standard deviations. A draw outside is
    /// replaced by one from a far position, so each element still depends on its own position
    /// alone.
    pub fn truncated_normal(&self, index: u64) -> f64 {
        let attempt = |n: u64| f64::from(self.normal(index.wrapping_add(n << 40)));
        // One draw in 22 falls outside, so sixteen in a row never do in practice.
        (0..16).map(attempt).find(|x| x.abs() <= 2.0).unwrap_or(0.0)
    }

    /// Fills `out` with elements `first ..` of the stream, uniform in [low, high).
    pub fn fill_uniform(&self, first: u64, low: f32, high: f32, out: &mut [f32]) {
        let mut words = self.words(first / 4);
        for (index, out) in (first..).zip(out) {
            if index.is_multiple_of(4) {
                words = self.words(index / 4);
            }
            *out = low + (high - low) * unit(words[(index % 4) as usize]);
        }
    }
}

/// What a variable's name counts for in a key (FNV-1a). A card that finds the seed in a tensor makes
/// the key of both, as [`Philox::new`] does.
pub fn hash_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// 24 random bits as a number in [0, 1).
fn unit(word: u32) -> f32 {
    (word >> 8) as f32 / (1u32 << 24) as f32
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of Random123's `kat_vectors` for philox4x32-10.
    #[test]
    fn matches_the_published_vectors() {
        let zero = Philox { key: [0, 0], stream: 0 };
        assert_eq!(zero.words(0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        let ones = Philox { key: [u32::MAX; 2], stream: u64::MAX };
        assert_eq!(ones.words(u64::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn position_decides_not_history() {
        let stream = Philox::new(7, "fc_0.w_0");
        let mut all = vec![0.0; 10];
        stream.fill_uniform(0, -1.0, 1.0, &mut all);
        let mut tail = vec![0.0; 5];
        stream.fill_uniform(5, -1.0, 1.0, &mut tail);
        assert_eq!(all[5..], tail);
        assert_ne!(stream.uniform(0), Philox::new(7, "fc_0.w_1").uniform(0));
        assert_ne!(stream.uniform(0), Philox::new(8, "fc_0.w_0").uniform(0));
    }

    #[test]
    fn moments_are_right() {
        let stream = Philox::new(1, "x");
        let n = 100_000u64;
        let normals: Vec<f64> = (0..n).map(|i| f64::from(stream.normal(i))).collect();
        let mean = normals.iter().sum::<f64>() / n as f64;
        let variance = normals.iter().map(|x| x * x).sum::<f64>() / n as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        let uniform = (0..n).map(|i| f64::from(stream.uniform(i))).sum::<f64>() / n as f64;
        assert!((uniform - 0.5).abs() < 0.01, "{uniform}");
    }
}
