//! Adam: steps by the mean of gradients over the root of the mean of their squares, both corrected
//! for starting at zero.
//!
//! With a sparse gradient, lazy mode touches only the rows that it names; otherwise the moments of
//! all rows decay and all rows move. Paddle's sparse CPU kernel updates the powers before it uses
//! them, so it corrects as if one more step had been made; so do we, because models that are brought
//! along must train the same. That its rows without a gradient take `epsilon` uncorrected makes no
//! difference that shows, and is not repeated.

use super::apply::{Power, Update};
use super::prelude::*;
use crate::dispatch;
use crate::op::{Slot, not_float};

optimizer! {
    /// Adam.
    Adam() {
        /// How much of the mean gradient stays; 0.9 by default.
        beta1: f32 = 0.9;
        /// How much of the mean squared gradient stays; 0.999 by default.
        beta2: f32 = 0.999;
        /// Keeps the division from zero; 1e-8 by default.
        epsilon: f32 = 1e-8;
        /// Whether a sparse gradient touches only the rows it names; no by default.
        lazy_mode: bool = false;
    }
}

impl Optimizer for Adam {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        Ok(with_moments(step, "adam", self.beta1, self.beta2)
            .attr("epsilon", self.epsilon)
            .attr("lazy_mode", self.lazy_mode)
            .attr("min_row_size_to_use_multithread", 1000i64)
            .attr("use_global_beta_pow", false))
    }
}

/// An op of Adam's kind with its moments and powers.
pub(super) fn with_moments(step: &Step<'_>, kind: &str, beta1: f32, beta2: f32) -> Op {
    let moment1 = step.accumulator("moment1", 0.0);
    let moment2 = step.accumulator("moment2", 0.0);
    let beta1_pow = step.number("beta1_pow_acc", beta1);
    let beta2_pow = step.number("beta2_pow_acc", beta2);
    let op = moment2.join(moment1.join(step.op(kind), "Moment1"), "Moment2");
    let op = beta2_pow.join(beta1_pow.join(op, "Beta1Pow"), "Beta2Pow");
    op.attr("beta1", beta1).attr("beta2", beta2)
}

pub(super) const INPUTS: &[Slot] = slots!["Param", "Grad", "LearningRate", "Moment1", "Moment2", "Beta1Pow", "Beta2Pow"; "MasterParam"];

/// The powers may be left to another op: see [`Power::advance`].
pub(super) const OUTPUTS: &[Slot] =
    slots!["ParamOut", "Moment1Out", "Moment2Out"; "Beta1PowOut", "Beta2PowOut", "MasterParamOut"];

pub(super) const UPDATES: &[(&str, &str)] = &[
    ("Param", "ParamOut"),
    MASTER,
    ("Moment1", "Moment1Out"),
    ("Moment2", "Moment2Out"),
    ("Beta1Pow", "Beta1PowOut"),
    ("Beta2Pow", "Beta2PowOut"),
];

/// All but the powers, which are single numbers.
pub(super) const SHARED: &[&str] = &["Param", "Moment1", "Moment2"];

pub(super) const DEF: OpDef = OpDef::new("adam", kernel)
    .inputs(INPUTS)
    .outputs(OUTPUTS)
    .attrs(&[
        attr::float("beta1", 0.9),
        attr::float("beta2", 0.999),
        attr::float("epsilon", 1.0e-8),
        attr::bool("lazy_mode", false),
        attr::long("min_row_size_to_use_multithread", 1000),
        attr::bool("multi_precision", false),
        attr::bool("use_global_beta_pow", false),
    ])
    .updates(UPDATES)
    .shared(SHARED);

/// The numbers of [`Adam`] that stay the same from step to step.
#[derive(Clone, Copy, Debug)]
pub struct AdamConfig {
    /// How much of the mean gradient stays.
    pub beta1: f64,
    /// How much of the mean squared gradient stays.
    pub beta2: f64,
    /// Keeps the division from zero.
    pub epsilon: f64,
}

rule! {
    /// The rule of [`Adam`]; its accumulators are the means of gradients and of their squares. The
    /// corrections for starting at zero are in `rate` and `epsilon`.
    AdamRule::with { beta1, beta2, rate, epsilon }
    |param, grad, [mean, square]| {
        let mean = beta1 * mean + (T::ONE - beta1) * grad;
        let square = beta2 * square + (T::ONE - beta2) * grad * grad;
        (param - rate * (mean / (square.sqrt() + epsilon)), [mean, square])
    }
}

impl AdamConfig {
    /// What the attributes of an op say.
    pub(super) fn new(op: &OpView<'_>) -> Result<AdamConfig> {
        let (beta1, beta2) = (op.f64("beta1")?, op.f64("beta2")?);
        Ok(AdamConfig { beta1, beta2, epsilon: op.f64("epsilon")? })
    }

    /// The rule of one step; `beta1_pow` and `beta2_pow` are the decay rates to the power of the
    /// number of this step, from 1.
    pub fn rule<T: Real>(&self, learning_rate: f64, beta1_pow: f64, beta2_pow: f64) -> AdamRule<T> {
        let correction = (1.0 - beta2_pow).sqrt();
        let rate = learning_rate * correction / (1.0 - beta1_pow);
        AdamRule::with(self.beta1, self.beta2, rate, self.epsilon * correction)
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut update = Update::new(op, [("Moment1", "Moment1Out"), ("Moment2", "Moment2Out")])?;
    let mut beta1_pow = Power::new(op, "Beta1Pow", "beta1")?;
    let mut beta2_pow = Power::new(op, "Beta2Pow", "beta2")?;
    let config = AdamConfig::new(op)?;
    let absent = if op.bool("lazy_mode")? { Absent::Keep } else { Absent::ZeroGradient };
    let keep_powers = op.bool("use_global_beta_pow")?;
    Ok(Box::new(move |run| {
        let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)?);
        let (mut power1, mut power2) = (beta1_pow.get(run)?, beta2_pow.get(run)?);
        if update.is_sparse(run) && !keep_powers {
            (power1, power2) = (power1 * config.beta1, power2 * config.beta2);
        }
        dispatch!(dtype, T in [f32, f64] => {
            update.apply::<T, _>(run, &config.rule(rate, power1, power2), absent)
        }, else => Err(not_float("Param", dtype)))?;
        beta1_pow.advance(run, keep_powers)?;
        beta2_pow.advance(run, keep_powers)
    }))
}
