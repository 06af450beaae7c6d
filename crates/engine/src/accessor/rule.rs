//! Paddle's sparse rules: how the accessors' weights follow their gradients.

use serde::{Deserialize, Serialize};

/// A rule for some weights of a row, and where these start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SparseRule {
    /// The formula.
    pub kind: SparseRuleKind,
    /// The learning rate.
    pub learning_rate: f32,
    /// New weights are uniform between minus this and this.
    pub initial_range: f32,
    /// Weights never leave this range.
    pub bounds: [f32; 2],
}

/// The formulas of Paddle's sparse rules.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SparseRuleKind {
    /// `SparseNaiveSGDRule`.
    Naive,
    /// `SparseAdaGradSGDRule`: one sum of squares for all weights of a row.
    AdaGrad {
        /// The sum of squares that every row starts with in the formula.
        initial_g2sum: f32,
    },
    /// `StdAdaGradSGDRule`: one sum of squares for each weight.
    StdAdaGrad {
        /// The sum of squares that every weight starts with in the formula.
        initial_g2sum: f32,
    },
    /// `SparseAdamSGDRule`; each row has its own powers.
    Adam {
        /// How much of the mean gradient stays.
        beta1: f32,
        /// How much of the mean squared gradient stays.
        beta2: f32,
        /// Keeps the division from zero.
        epsilon: f32,
    },
    /// `SparseSharedAdamSGDRule`: one pair of moments for all weights of a row.
    SharedAdam {
        /// How much of the mean gradient stays.
        beta1: f32,
        /// How much of the mean squared gradient stays.
        beta2: f32,
        /// Keeps the division from zero.
        epsilon: f32,
    },
}

impl SparseRule {
    /// The floats that it keeps beside `width` weights.
    pub fn state_width(&self, width: usize) -> usize {
        match self.kind {
            SparseRuleKind::Naive => 0,
            SparseRuleKind::AdaGrad { .. } => 1,
            SparseRuleKind::StdAdaGrad { .. } => width,
            SparseRuleKind::Adam { .. } => 2 * width + 2,
            SparseRuleKind::SharedAdam { .. } => 4,
        }
    }

    /// Fills in the state of new weights.
    #[inline]
    pub fn start(&self, state: &mut [f32]) {
        state.fill(0.0);
        if let SparseRuleKind::Adam { beta1, beta2, .. }
        | SparseRuleKind::SharedAdam { beta1, beta2, .. } = self.kind
            && let [.., power1, power2] = state
        {
            (*power1, *power2) = (beta1, beta2);
        }
    }

    /// Updates `weights`; `scale` is the number of shows that the gradient is a sum over.
    #[inline]
    pub fn update(&self, weights: &mut [f32], state: &mut [f32], grads: &[f32], scale: f32) {
        // A push without shows is one sample's. Paddle divides by zero here.
        let scale = if scale > 0.0 { scale } else { 1.0 };
        let rate = self.learning_rate;
        match self.kind {
            SparseRuleKind::Naive => {
                for (weight, grad) in weights.iter_mut().zip(grads) {
                    *weight -= rate * grad;
                }
            }
            SparseRuleKind::AdaGrad { initial_g2sum } => {
                let ratio = (initial_g2sum / (initial_g2sum + state[0])).sqrt();
                let mut squares = 0.0f64;
                for (weight, grad) in weights.iter_mut().zip(grads) {
                    let grad = grad / scale;
                    *weight -= rate * grad * ratio;
                    squares += f64::from(grad) * f64::from(grad);
                }
                state[0] += (squares / weights.len().max(1) as f64) as f32;
            }
            SparseRuleKind::StdAdaGrad { initial_g2sum } => {
                for ((weight, grad), sum) in weights.iter_mut().zip(grads).zip(state) {
                    let grad = grad / scale;
                    *weight -= rate * grad * (initial_g2sum / (initial_g2sum + *sum)).sqrt();
                    *sum += grad * grad;
                }
            }
            SparseRuleKind::Adam { beta1, beta2, epsilon } => {
                let (moments, powers) = state.split_at_mut(2 * weights.len());
                let (means, squares) = moments.split_at_mut(weights.len());
                let step = rate * (1.0 - powers[1]).sqrt() / (1.0 - powers[0]);
                let moments = means.iter_mut().zip(squares);
                for ((weight, grad), (mean, square)) in weights.iter_mut().zip(grads).zip(moments) {
                    *mean = beta1 * *mean + (1.0 - beta1) * grad;
                    *square = beta2 * *square + (1.0 - beta2) * grad * grad;
                    *weight -= step * (*mean / (square.sqrt() + epsilon));
                }
                powers[0] *= beta1;
                powers[1] *= beta2;
            }
            SparseRuleKind::SharedAdam { beta1, beta2, epsilon } => {
                let step = rate * (1.0 - state[3]).sqrt() / (1.0 - state[2]);
                let (mut means, mut squares) = (0.0f64, 0.0f64);
                for (weight, grad) in weights.iter_mut().zip(grads) {
                    let mean = beta1 * state[0] + (1.0 - beta1) * grad;
                    let square = beta2 * state[1] + (1.0 - beta2) * grad * grad;
                    *weight -= step * (mean / (square.sqrt() + epsilon));
                    means += f64::from(mean);
                    squares += f64::from(square);
                }
                let count = weights.len().max(1) as f64;
                state[0] = (means / count) as f32;
                state[1] = (squares / count) as f32;
                state[2] *= beta1;
                state[3] *= beta2;
            }
        }
        for weight in weights {
            *weight = weight.clamp(self.bounds[0], self.bounds[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: SparseRuleKind, learning_rate: f32) -> SparseRule {
        SparseRule { kind, learning_rate, initial_range: 1e-4, bounds: [-10.0, 10.0] }
    }

    fn close(given: &[f32], expected: &[f32]) {
        let near = given.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near && given.len() == expected.len(), "{given:?}, not {expected:?}");
    }

    #[test]
    fn naive_ignores_shows_and_keeps_its_bounds() {
        let naive = rule(SparseRuleKind::Naive, 0.05);
        let mut weights = [1.0, 9.99];
        naive.update(&mut weights, &mut [], &[2.0, -4.0], 3.0);
        close(&weights, &[0.9, 10.0]);
    }

    #[test]
    fn adagrad_shares_one_sum() {
        let adagrad = rule(SparseRuleKind::AdaGrad { initial_g2sum: 3.0 }, 0.05);
        let (mut weights, mut state) = ([1.0, 2.0], [1.0]);
        adagrad.update(&mut weights, &mut state, &[2.0, -4.0], 2.0);
        // Gradients 1 and -2; sqrt(3 / 4) = 0.8660254; the mean of squares is 2.5.
        close(&weights, &[1.0 - 0.05 * 0.866_025_4, 2.0 + 0.1 * 0.866_025_4]);
        close(&state, &[3.5]);
        adagrad.update(&mut weights, &mut state, &[0.0, 0.0], 0.0);
        close(&state, &[3.5]);
    }

    #[test]
    fn std_adagrad_has_a_sum_for_each() {
        let adagrad = rule(SparseRuleKind::StdAdaGrad { initial_g2sum: 3.0 }, 0.05);
        let (mut weights, mut state) = ([1.0, 2.0], [1.0, 0.0]);
        adagrad.update(&mut weights, &mut state, &[2.0, -4.0], 2.0);
        close(&weights, &[1.0 - 0.05 * 0.866_025_4, 2.1]);
        close(&state, &[2.0, 4.0]);
    }

    #[test]
    fn adam_keeps_powers_in_the_row() {
        let kind = SparseRuleKind::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
        let adam = rule(kind, 0.001);
        let (mut weights, mut state) = ([1.0, 2.0], [7.0; 6]);
        adam.start(&mut state);
        close(&state, &[0.0, 0.0, 0.0, 0.0, 0.9, 0.999]);
        adam.update(&mut weights, &mut state, &[0.5, -3.0], 5.0);
        // The first step of Adam is the learning rate, whatever the gradient.
        close(&weights, &[0.999, 2.001]);
        close(&state, &[0.05, -0.3, 0.000_25, 0.009, 0.81, 0.998_001]);
    }

    #[test]
    fn shared_adam_keeps_the_means_of_moments() {
        let kind = SparseRuleKind::SharedAdam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
        let adam = rule(kind, 0.001);
        let (mut weights, mut state) = ([1.0, 2.0], [7.0; 4]);
        adam.start(&mut state);
        adam.update(&mut weights, &mut state, &[0.5, -3.0], 5.0);
        close(&weights, &[0.999, 2.001]);
        close(&state, &[-0.125, 0.004_625, 0.81, 0.998_001]);
        assert_eq!(
            [0, 1, 3, 8, 4],
            [
                SparseRuleKind::Naive,
                SparseRuleKind::AdaGrad { initial_g2sum: 3.0 },
                SparseRuleKind::StdAdaGrad { initial_g2sum: 3.0 },
                SparseRuleKind::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
                kind,
            ]
            .map(|kind| rule(kind, 0.1).state_width(3))
        );
    }
}
