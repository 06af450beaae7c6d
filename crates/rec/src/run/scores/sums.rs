//! Metrics that are made of sums over samples.

use serde::{Deserialize, Serialize};

use crate::run::exact;

/// Keeps logarithms finite.
const EPSILON: f64 = 1e-7;

/// A metric that is made of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    LogLoss,
    Accuracy,
    Rmse,
    Mae,
    /// Predicted clicks over clicks.
    Pcoc,
}

impl Kind {
    pub(super) fn named(name: &str) -> Option<Kind> {
        Some(match name {
            "logloss" => Kind::LogLoss,
            "accuracy" | "acc" => Kind::Accuracy,
            "rmse" => Kind::Rmse,
            "mae" => Kind::Mae,
            "pcoc" => Kind::Pcoc,
            _ => return None,
        })
    }
}

/// Sums over samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::run) struct Sums {
    #[serde(with = "exact")]
    samples: f64,
    #[serde(with = "exact")]
    log_loss: f64,
    #[serde(with = "exact")]
    correct: f64,
    #[serde(with = "exact")]
    squares: f64,
    #[serde(with = "exact")]
    distances: f64,
    #[serde(with = "exact")]
    predictions: f64,
    #[serde(with = "exact")]
    labels: f64,
}

impl Sums {
    /// How many there are.
    pub(super) const NUMBERS: usize = 7;

    pub(super) fn add(&mut self, score: f64, label: f64) {
        let chance = score.clamp(EPSILON, 1.0 - EPSILON);
        self.samples += 1.0;
        self.log_loss -= label * chance.ln() + (1.0 - label) * (1.0 - chance).ln();
        self.correct += f64::from(u8::from((score >= 0.5) == (label >= 0.5)));
        self.squares += (score - label) * (score - label);
        self.distances += (score - label).abs();
        self.predictions += score;
        self.labels += label;
    }

    /// Not a number where there are no samples, or no clicks for PCOC.
    pub(super) fn value(&self, kind: Kind) -> f64 {
        match kind {
            Kind::LogLoss => self.log_loss / self.samples,
            Kind::Accuracy => self.correct / self.samples,
            Kind::Rmse => (self.squares / self.samples).sqrt(),
            Kind::Mae => self.distances / self.samples,
            Kind::Pcoc => match self.labels > 0.0 {
                true => self.predictions / self.labels,
                false => f64::NAN,
            },
        }
    }

    pub(super) fn numbers(&self) -> [f64; Sums::NUMBERS] {
        let Sums { samples, log_loss, correct, squares, distances, predictions, labels } = *self;
        [samples, log_loss, correct, squares, distances, predictions, labels]
    }

    /// From as many numbers as [`Sums::numbers`] has.
    pub(super) fn of_numbers(numbers: &[f64]) -> Sums {
        let at = |index: usize| numbers.get(index).copied().unwrap_or_default();
        Sums {
            samples: at(0),
            log_loss: at(1),
            correct: at(2),
            squares: at(3),
            distances: at(4),
            predictions: at(5),
            labels: at(6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// scikit-learn 1.9.1, of labels 1 0 1 0 1 and scores 0.9 0.2 0.4 0.6 0.7: `log_loss`,
    /// `accuracy_score` of scores rounded, the root of `mean_squared_error`, `mean_absolute_error`.
    #[test]
    fn sums_are_those_of_scikit_learn() {
        let mut sums = Sums::default();
        let samples = [(0.9, 1.0), (0.2, 0.0), (0.4, 1.0), (0.6, 0.0), (0.7, 1.0)];
        samples.iter().for_each(|(score, label)| sums.add(*score, *label));
        let is = |kind: Kind, wanted: f64| {
            let value = sums.value(kind);
            assert!((value - wanted).abs() < 1e-9, "{kind:?}: {value}");
        };
        is(Kind::LogLoss, 0.503_552_094_931_815_6);
        is(Kind::Accuracy, 0.6);
        is(Kind::Rmse, 0.414_728_827_066_554_45);
        is(Kind::Mae, 0.36);
        is(Kind::Pcoc, 2.8 / 3.0);
        assert_eq!(Sums::of_numbers(&sums.numbers()), sums);
        assert!(Sums::default().value(Kind::Pcoc).is_nan());
    }
}
