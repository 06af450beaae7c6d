//! A learning rate that falls when a metric stops getting better. It depends on what happens
//! outside the program, so it is no schedule of ops: the training loop sets the rate's variable.

/// Which metrics are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Smaller ones: a loss.
    Min,
    /// Greater ones: an accuracy.
    Max,
}

/// By how much a metric must improve to count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// By this part of the best one.
    Relative(f64),
    /// By this much.
    Absolute(f64),
}

/// Lowers the learning rate when a metric has stopped getting better.
#[derive(Clone, Debug)]
pub struct ReduceOnPlateau {
    rate: f64,
    mode: Mode,
    factor: f64,
    patience: u32,
    threshold: Threshold,
    cooldown: u32,
    min_lr: f64,
    epsilon: f64,
    best: Option<f64>,
    bad_epochs: u32,
    cooling: u32,
}

impl ReduceOnPlateau {
    /// Starts at `rate`, for a metric that should fall.
    pub fn new(rate: f64) -> ReduceOnPlateau {
        ReduceOnPlateau {
            rate,
            mode: Mode::Min,
            factor: 0.1,
            patience: 10,
            threshold: Threshold::Relative(1e-4),
            cooldown: 0,
            min_lr: 0.0,
            epsilon: 1e-8,
            best: None,
            bad_epochs: 0,
            cooling: 0,
        }
    }

    /// Which metrics are better; smaller ones by default.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> ReduceOnPlateau {
        self.mode = mode;
        self
    }

    /// What is left of the rate after a fall; 0.1 by default.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> ReduceOnPlateau {
        self.factor = factor;
        self
    }

    /// How many bad metrics in a row are borne; 10 by default.
    #[must_use]
    pub fn patience(mut self, patience: u32) -> ReduceOnPlateau {
        self.patience = patience;
        self
    }

    /// By how much a metric must improve to count; by 1e-4 of the best by default.
    #[must_use]
    pub fn threshold(mut self, threshold: Threshold) -> ReduceOnPlateau {
        self.threshold = threshold;
        self
    }

    /// For how many metrics after a fall none is bad; 0 by default.
    #[must_use]
    pub fn cooldown(mut self, cooldown: u32) -> ReduceOnPlateau {
        self.cooldown = cooldown;
        self
    }

    /// The rate never falls below this; 0 by default.
    #[must_use]
    pub fn min_lr(mut self, min_lr: f64) -> ReduceOnPlateau {
        self.min_lr = min_lr;
        self
    }

    /// A fall by less than this is not worth it; 1e-8 by default.
    #[must_use]
    pub fn epsilon(mut self, epsilon: f64) -> ReduceOnPlateau {
        self.epsilon = epsilon;
        self
    }

    /// The rate now.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Takes the metric of an epoch, and returns the rate of the next one.
    pub fn step(&mut self, metric: f64) -> f64 {
        if self.cooling > 0 {
            self.cooling -= 1;
            return self.rate;
        }
        if self.best.is_none_or(|best| self.is_better(metric, best)) {
            self.best = Some(metric);
            self.bad_epochs = 0;
        } else {
            self.bad_epochs += 1;
        }
        if self.bad_epochs > self.patience {
            self.cooling = self.cooldown;
            self.bad_epochs = 0;
            let lower = (self.rate * self.factor).max(self.min_lr);
            if self.rate - lower > self.epsilon {
                self.rate = lower;
            }
        }
        self.rate
    }

    fn is_better(&self, metric: f64, best: f64) -> bool {
        let margin = match self.threshold {
            Threshold::Relative(part) => best * part,
            Threshold::Absolute(margin) => margin,
        };
        match self.mode {
            Mode::Min => metric < best - margin,
            Mode::Max => metric > best + margin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_after_patience_and_rests() {
        let mut plateau = ReduceOnPlateau::new(1.0).factor(0.5).patience(1).cooldown(2);
        let rates: Vec<f64> =
            [5.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 3.0].map(|m| plateau.step(m)).to_vec();
        // Falls at the second bad epoch, ignores the next two, then bears one again.
        assert_eq!(rates, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]);
    }

    #[test]
    fn greater_may_be_better_and_the_rate_has_a_floor() {
        let mut plateau = ReduceOnPlateau::new(1.0)
            .mode(Mode::Max)
            .threshold(Threshold::Absolute(0.1))
            .patience(0)
            .min_lr(0.05)
            .epsilon(0.0);
        assert_eq!(
            [0.5, 0.7, 0.75, 0.7, 0.7].map(|m| plateau.step(m)),
            [1.0, 1.0, 0.1, 0.05, 0.05]
        );
        assert_eq!(plateau.rate(), 0.05);
    }
}
