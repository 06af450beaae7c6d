//! Random draws of one sample, and the fixed world's hidden numbers.

use bireme_engine::random::Philox;

/// The seed of the world.
const WORLD: u64 = 2026;

/// The draws of one sample, one after the other.
pub(super) struct Draws {
    stream: Philox,
    /// The generator makes four numbers at a time.
    four: [f32; 4],
    at: usize,
}

impl Draws {
    /// Those of sample `row` of the data `name`.
    pub(super) fn of(name: &str, seed: u64, row: u64) -> Draws {
        Draws { stream: Philox::new(seed, name).stream(row), four: [0.0; 4], at: 0 }
    }

    /// Between 0 and 1.
    pub(super) fn uniform(&mut self) -> f32 {
        if self.at.is_multiple_of(4) {
            self.stream.fill_uniform(self.at as u64, 0.0, 1.0, &mut self.four);
        }
        self.at += 1;
        self.four[(self.at - 1) % 4]
    }

    /// Less than `count`, each as likely.
    pub(super) fn below(&mut self, count: usize) -> usize {
        ((self.uniform() * count as f32) as usize).min(count - 1)
    }

    /// Whether something of this chance happens.
    pub(super) fn happens(&mut self, chance: f32) -> bool {
        self.uniform() < chance
    }

    /// A value of this distribution.
    pub(super) fn from(&mut self, skew: &Skew) -> usize {
        let at = self.uniform();
        skew.cumulative.partition_point(|share| *share <= at).min(skew.cumulative.len() - 1)
    }
}

/// A distribution over 0, 1, 2 and so on, in which early values are common.
#[derive(Debug)]
pub(super) struct Skew {
    /// The chance of a value or one before it.
    cumulative: Vec<f32>,
}

impl Skew {
    /// Zipf's law over so many values; its exponent.
    pub(super) fn zipf(values: usize, exponent: f32) -> Skew {
        Skew::of((1..=values).map(|rank| (rank as f32).powf(-exponent)))
    }

    /// The same over many values, whose sum needs 64 bits.
    pub(super) fn power_law(values: usize, exponent: f64) -> Skew {
        let terms: Vec<f64> = (1..=values).map(|rank| (rank as f64).powf(-exponent)).collect();
        let total: f64 = terms.iter().sum();
        let sums = terms.iter().scan(0.0, |sum, term| {
            *sum += term / total;
            Some(*sum as f32)
        });
        Skew { cumulative: sums.collect() }
    }

    /// Values with these weights.
    pub(super) fn of(weights: impl Iterator<Item = f32>) -> Skew {
        let mut total = 0.0;
        let mut cumulative: Vec<f32> = weights
            .map(|weight| {
                total += weight;
                total
            })
            .collect();
        cumulative.iter_mut().for_each(|share| *share /= total);
        Skew { cumulative }
    }
}

/// Hidden numbers of the world, each normal with mean 0 and variance 1.
#[derive(Clone, Copy)]
pub(super) struct Hidden(Philox);

impl Hidden {
    /// Those of this name.
    pub(super) fn of(name: &str) -> Hidden {
        Hidden(Philox::new(WORLD, name))
    }

    /// The weight of `thing`.
    pub(super) fn weight(self, thing: usize) -> f32 {
        self.0.stream(thing as u64).normal(0)
    }

    /// The vector of `thing`.
    pub(super) fn vector<const N: usize>(self, thing: usize) -> [f32; N] {
        let stream = self.0.stream(thing as u64);
        std::array::from_fn(|at| stream.normal(at as u64))
    }
}

/// The product of two vectors.
pub(super) fn dot<const N: usize>(a: [f32; N], b: [f32; N]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
