//! AdamW: Adam with weight decay that does not pass through the moments.
//!
//! `lr_ratio` scales the learning rate of the whole update, as it is documented and as Paddle's GPU
//! kernel has it; Paddle's CPU kernel scales the decay only.

use super::Rule;
use super::adam::{self, AdamConfig, AdamRule};
use super::apply::{Power, Update};
use super::prelude::*;
use crate::dispatch;
use crate::op::not_float;

optimizer! {
    /// Adam with decoupled weight decay.
    AdamW() {
        /// How much of the mean gradient stays; 0.9 by default.
        beta1: f32 = 0.9;
        /// How much of the mean squared gradient stays; 0.999 by default.
        beta2: f32 = 0.999;
        /// Keeps the division from zero; 1e-8 by default.
        epsilon: f32 = 1e-8;
        /// The share of a parameter that decays per unit of learning rate; 0.01 by default.
        weight_decay: f32 = 0.01;
        /// A factor on the learning rate; 1 by default.
        lr_ratio: f32 = 1.0;
        /// Whether a sparse gradient touches only the rows it names; no by default.
        lazy_mode: bool = false;
    }
    names {
        /// Lets these parameters keep their weight: biases, scales of normalisations.
        without_decay
    }
}

impl Optimizer for AdamW {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let decays = !self.without_decay.iter().any(|name| name == step.param.name());
        Ok(adam::with_moments(step, "adamw", self.beta1, self.beta2)
            .attr("epsilon", self.epsilon)
            .attr("lr_ratio", self.lr_ratio)
            .attr("coeff", self.weight_decay)
            .attr("with_decay", decays)
            .attr("lazy_mode", self.lazy_mode)
            .attr("min_row_size_to_use_multithread", 1000i64)
            .attr("use_global_beta_pow", false))
    }
}

pub(super) const DEF: OpDef = OpDef::new("adamw", kernel)
    .inputs(adam::INPUTS)
    .outputs(adam::OUTPUTS)
    .attrs(&[
        attr::float("beta1", 0.9),
        attr::float("beta2", 0.999),
        attr::float("epsilon", 1.0e-8),
        attr::float("lr_ratio", 1.0),
        attr::float("coeff", 0.01),
        attr::bool("with_decay", false),
        attr::bool("lazy_mode", false),
        attr::long("min_row_size_to_use_multithread", 1000),
        attr::bool("multi_precision", false),
        attr::bool("use_global_beta_pow", false),
    ])
    .updates(adam::UPDATES)
    .shared(adam::SHARED);

/// The rule of [`AdamW`]; its accumulators are Adam's.
#[derive(Clone, Copy, Debug)]
pub struct AdamWRule<T> {
    /// What decay leaves of a parameter.
    left: T,
    adam: AdamRule<T>,
}

impl<T: Real> AdamWRule<T> {
    /// Adam's rule after a decay by `decay` (learning rate times coefficient).
    pub fn new(adam: AdamRule<T>, decay: f64) -> AdamWRule<T> {
        AdamWRule { left: T::from_f64(1.0 - decay), adam }
    }
}

impl<T: Real> Rule<T, 2> for AdamWRule<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, state: [T; 2]) -> (T, [T; 2]) {
        self.adam.element(param * self.left, grad, state)
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut update = Update::new(op, [("Moment1", "Moment1Out"), ("Moment2", "Moment2Out")])?;
    let mut beta1_pow = Power::new(op, "Beta1Pow", "beta1")?;
    let mut beta2_pow = Power::new(op, "Beta2Pow", "beta2")?;
    let config = AdamConfig::new(op)?;
    let coeff = if op.bool("with_decay")? { op.f64("coeff")? } else { 0.0 };
    let ratio = op.f64("lr_ratio")?;
    let absent = if op.bool("lazy_mode")? { Absent::Keep } else { Absent::ZeroGradient };
    let keep_powers = op.bool("use_global_beta_pow")?;
    Ok(Box::new(move |run| {
        let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)? * ratio);
        let (power1, power2) = (beta1_pow.get(run)?, beta2_pow.get(run)?);
        dispatch!(dtype, T in [f32, f64] => {
            let rule = AdamWRule::new(config.rule(rate, power1, power2), rate * coeff);
            update.apply::<T, _>(run, &rule, absent)
        }, else => Err(not_float("Param", dtype)))?;
        beta1_pow.advance(run, keep_powers)?;
        beta2_pow.advance(run, keep_powers)
    }))
}
