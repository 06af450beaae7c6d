//! Lamb: Adam's direction with weight decay, scaled so that a step is in proportion to the norm of
//! the parameter. The norms are of whole tensors, so an update cannot be shared out.

use super::adam::{self, AdamConfig};
use super::apply::{Power, Update, Whole};
use super::norm::norm;
use super::prelude::*;
use super::{Rule, rule};
use crate::dispatch;
use crate::op::not_float;

optimizer! {
    /// Lamb, for large batches.
    Lamb() {
        /// How much of the mean gradient stays; 0.9 by default.
        beta1: f32 = 0.9;
        /// How much of the mean squared gradient stays; 0.999 by default.
        beta2: f32 = 0.999;
        /// Keeps the division from zero; 1e-6 by default.
        epsilon: f32 = 1e-6;
        /// How much of a parameter is added to its direction; 0.01 by default.
        lamb_weight_decay: f32 = 0.01;
        /// Whether parameters without weight decay are scaled by their norm too; no by default.
        always_adapt: bool = false;
    }
    names {
        /// Lets these parameters keep their weight: biases, scales of normalisations.
        without_decay
    }
}

impl Optimizer for Lamb {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let decays = !self.without_decay.iter().any(|name| name == step.param.name());
        Ok(adam::with_moments(step, "lamb", self.beta1, self.beta2)
            .attr("epsilon", self.epsilon)
            .attr("weight_decay", if decays { self.lamb_weight_decay } else { 0.0 })
            .attr("always_adapt", self.always_adapt))
    }
}

pub(super) const DEF: OpDef = OpDef::new("lamb", kernel)
    .inputs(adam::INPUTS)
    .outputs(adam::OUTPUTS)
    .attrs(&[
        attr::float("weight_decay", 0.01),
        attr::float("beta1", 0.9),
        attr::float("beta2", 0.999),
        attr::float("epsilon", 1.0e-6),
        attr::bool("always_adapt", false),
        attr::bool("multi_precision", false),
    ])
    .updates(adam::UPDATES);

/// The numbers of [`Lamb`] in one step.
#[derive(Clone, Copy, Debug)]
pub struct LambRule {
    /// Adam's decay rates and epsilon.
    pub adam: AdamConfig,
    /// How much of a parameter is added to its direction.
    pub weight_decay: f64,
    /// Whether parameters without weight decay are scaled by their norm too.
    pub always_adapt: bool,
    /// The learning rate.
    pub learning_rate: f64,
    /// `beta1` to the power of the number of this step, from 1.
    pub beta1_pow: f64,
    /// `beta2` to the power of the number of this step.
    pub beta2_pow: f64,
}

impl LambRule {
    /// Updates a whole parameter; the accumulators are Adam's.
    pub fn update<T: Real>(&self, param: &mut [T], grad: &[T], mean: &mut [T], square: &mut [T]) {
        let direction = Direction::new(self);
        // The norm of the direction must be known before the first element moves; the direction
        // itself follows from the moments, so it is computed twice and kept nowhere.
        rule::update(&direction, param, grad, [&mut *mean, &mut *square]);
        let mut ratio = 1.0;
        if self.weight_decay > 0.0 || self.always_adapt {
            let size = norm([&*param; 3], |param, _, _| param);
            let step = norm([&*param, &*mean, &*square], |param, mean, square| {
                direction.of(param, mean, square)
            });
            if size > 0.0 && step > 0.0 {
                ratio = size / step;
            }
        }
        let rate = T::from_f64(self.learning_rate * ratio);
        rule::update(&Move { direction, rate }, param, grad, [mean, square]);
    }
}

/// The direction of a step, and the update of the moments it follows from.
#[derive(Clone, Copy, Debug)]
struct Direction<T> {
    beta1: T,
    beta2: T,
    epsilon: T,
    weight_decay: T,
    /// The corrections for moments that started at zero, as factors.
    unbias: [T; 2],
}

impl<T: Real> Direction<T> {
    fn new(rule: &LambRule) -> Direction<T> {
        let unbias = [1.0 / (1.0 - rule.beta1_pow), 1.0 / (1.0 - rule.beta2_pow)];
        Direction {
            beta1: T::from_f64(rule.adam.beta1),
            beta2: T::from_f64(rule.adam.beta2),
            epsilon: T::from_f64(rule.adam.epsilon),
            weight_decay: T::from_f64(rule.weight_decay),
            unbias: unbias.map(T::from_f64),
        }
    }

    #[inline(always)]
    fn of(&self, param: T, mean: T, square: T) -> T {
        let (mean, square) = (mean * self.unbias[0], square * self.unbias[1]);
        mean / (square.sqrt() + self.epsilon) + self.weight_decay * param
    }
}

impl<T: Real> Rule<T, 2> for Direction<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, [mean, square]: [T; 2]) -> (T, [T; 2]) {
        let mean = self.beta1 * mean + (T::ONE - self.beta1) * grad;
        let square = self.beta2 * square + (T::ONE - self.beta2) * grad * grad;
        (param, [mean, square])
    }
}

/// A step in a direction, once its length is known.
#[derive(Clone, Copy, Debug)]
struct Move<T> {
    direction: Direction<T>,
    rate: T,
}

impl<T: Real> Rule<T, 2> for Move<T> {
    #[inline(always)]
    fn element(&self, param: T, _: T, [mean, square]: [T; 2]) -> (T, [T; 2]) {
        (param - self.rate * self.direction.of(param, mean, square), [mean, square])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut update = Update::new(op, [("Moment1", "Moment1Out"), ("Moment2", "Moment2Out")])?;
    let mut beta1_pow = Power::new(op, "Beta1Pow", "beta1")?;
    let mut beta2_pow = Power::new(op, "Beta2Pow", "beta2")?;
    let adam = AdamConfig::new(op)?;
    let (weight_decay, always_adapt) = (op.f64("weight_decay")?, op.bool("always_adapt")?);
    Ok(Box::new(move |run| {
        let dtype = update.dtype(run)?;
        let rule = LambRule {
            adam,
            weight_decay,
            always_adapt,
            learning_rate: update.learning_rate(run)?,
            beta1_pow: beta1_pow.get(run)?,
            beta2_pow: beta2_pow.get(run)?,
        };
        dispatch!(dtype, T in [f32, f64] => {
            let Whole { param, grad, state: [mean, square] } = update.whole::<T>(run)?;
            rule.update(param, grad, mean, square);
            update.round(run)
        }, else => Err(not_float("Param", dtype)))?;
        beta1_pow.advance(run, false)?;
        beta2_pow.advance(run, false)
    }))
}
