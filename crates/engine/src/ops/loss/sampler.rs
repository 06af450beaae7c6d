//! The distributions that classes are drawn from where a loss looks at some of them only.

use crate::ops::prelude::*;
use crate::random::Philox;

/// A distribution over classes.
#[derive(Clone, Copy)]
pub(super) enum Sampler<'a> {
    /// All classes up to this one alike.
    Uniform { last: usize },
    /// Classes below this number, small ones more often: as words ordered by frequency come.
    LogUniform { range: usize },
    /// As given, by the alias method.
    Custom { probabilities: &'a [f32], alias: &'a [i32], alias_probabilities: &'a [f32] },
}

impl Sampler<'_> {
    /// A class, from the two random numbers at place `index`.
    pub(super) fn draw(&self, random: Philox, index: u64) -> i64 {
        let uniform = |which: u64| random.u64(2 * index + which) as f64 / (u64::MAX as f64 + 1.0);
        let below = |count: usize| ((uniform(0) * count as f64) as usize).min(count - 1);
        match self {
            Sampler::Uniform { last } => below(last + 1) as i64,
            Sampler::LogUniform { range } => {
                let value = (uniform(0) * (*range as f64 + 1.0).ln()).exp() as i64 - 1;
                // Rounding may lead one too far.
                value % (*range as i64).max(1)
            }
            Sampler::Custom { probabilities, alias, alias_probabilities } => {
                let class = below(probabilities.len());
                let other = i64::from(alias[class]);
                let stays = uniform(1) <= f64::from(alias_probabilities[class]) || other < 0;
                if stays { class as i64 } else { other }
            }
        }
    }

    /// How probable `class` is.
    pub(super) fn probability(&self, class: i64) -> f64 {
        match self {
            Sampler::Uniform { last } => 1.0 / (*last as f64 + 1.0),
            Sampler::LogUniform { range } => {
                ((class as f64 + 2.0) / (class as f64 + 1.0)).ln() / (*range as f64 + 1.0).ln()
            }
            Sampler::Custom { probabilities, .. } => f64::from(probabilities[class as usize]),
        }
    }
}

/// That `class` is one of `classes`; `slot` says where it comes from.
pub(super) fn check_class(class: i64, classes: usize, slot: &str) -> Result<()> {
    if (0..classes as i64).contains(&class) {
        return Ok(());
    }
    Err(Error::kernel(format!("`{slot}` holds class {class}, but there are {classes}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_come_as_often_as_they_are_probable() {
        let (probabilities, alias) = ([0.1f32, 0.6, 0.3], [1, -1, 1]);
        let custom = Sampler::Custom {
            probabilities: &probabilities,
            alias: &alias,
            alias_probabilities: &[0.3, 1.0, 0.9],
        };
        let samplers = [Sampler::Uniform { last: 2 }, Sampler::LogUniform { range: 3 }, custom];
        for (number, sampler) in samplers.into_iter().enumerate() {
            let random = Philox::new(5, "samples").stream(number as u64);
            let mut counts = [0; 3];
            for index in 0..30_000 {
                counts[sampler.draw(random, index) as usize] += 1;
            }
            for (class, count) in counts.into_iter().enumerate() {
                let share = f64::from(count) / 30_000.0;
                let expected = sampler.probability(class as i64);
                assert!((share - expected).abs() < 0.01, "{class}: {share} {expected}");
            }
        }
    }
}
