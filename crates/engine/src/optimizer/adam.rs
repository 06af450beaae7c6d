//! Adam: steps by the mean of gradients over the root of the mean of their squares, both corrected
//! for starting at zero.
//!
//! With a sparse gradient, lazy mode touches only the rows that it names; otherwise the moments of
//! all rows decay and all rows move. Paddle's sparse CPU kernel updates the powers before it uses
//! them, so it corrects as if one more step had been made; so do we, because models that are brought
//! along must train the same. That its rows without a gradient take `epsilon` uncorrected makes no
//! difference that shows, and is not repeated.

use bireme_ir::Op;

use super::apply::{Power, Update, not_float};
use super::settings::{setters, settings_setters};
use super::{Absent, Optimizer, Real, Rule, Settings, Step};
use crate::lr::Lr;
use crate::op::{Kernel, OpDef, OpView, Slot, attr};
use crate::{Result, dispatch};

/// Adam.
#[derive(Clone, Debug)]
pub struct Adam {
    settings: Settings,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    lazy_mode: bool,
}

impl Adam {
    /// With this learning rate.
    pub fn new(learning_rate: impl Into<Lr>) -> Adam {
        let settings = Settings::new(learning_rate.into());
        Adam { settings, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, lazy_mode: false }
    }

    settings_setters!();

    setters! {
        /// How much of the mean gradient stays; 0.9 by default.
        beta1: f32;
        /// How much of the mean squared gradient stays; 0.999 by default.
        beta2: f32;
        /// Keeps the division from zero; 1e-8 by default.
        epsilon: f32;
        /// Whether a sparse gradient touches only the rows it names; no by default.
        lazy_mode: bool;
    }
}

impl Optimizer for Adam {
    fn settings(&self) -> &Settings {
        &self.settings
    }

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

pub(super) const INPUTS: &[Slot] = &[
    Slot::one("Param"),
    Slot::one("Grad"),
    Slot::one("LearningRate"),
    Slot::one("Moment1"),
    Slot::one("Moment2"),
    Slot::one("Beta1Pow"),
    Slot::one("Beta2Pow"),
];

/// The powers may be left to another op: see [`Power::advance`].
pub(super) const OUTPUTS: &[Slot] = &[
    Slot::one("ParamOut"),
    Slot::one("Moment1Out"),
    Slot::one("Moment2Out"),
    Slot::maybe("Beta1PowOut"),
    Slot::maybe("Beta2PowOut"),
];

pub(super) const LIKE: &[(&str, &str)] = &[
    ("ParamOut", "Param"),
    ("Moment1Out", "Moment1"),
    ("Moment2Out", "Moment2"),
    ("Beta1PowOut", "Beta1Pow"),
    ("Beta2PowOut", "Beta2Pow"),
];

pub(super) const INPLACE: &[(&str, &str)] = &[
    ("Param", "ParamOut"),
    ("Moment1", "Moment1Out"),
    ("Moment2", "Moment2Out"),
    ("Beta1Pow", "Beta1PowOut"),
    ("Beta2Pow", "Beta2PowOut"),
];

/// All but the powers, which are single numbers.
pub(super) const SHARED: &[&str] =
    &["Param", "ParamOut", "Moment1", "Moment1Out", "Moment2", "Moment2Out"];

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
    .like(LIKE)
    .inplace(INPLACE)
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

/// The rule of [`Adam`]; its accumulators are the means of gradients and of their squares.
#[derive(Clone, Copy, Debug)]
pub struct AdamRule<T> {
    beta1: T,
    beta2: T,
    /// The learning rate and epsilon with the corrections for starting at zero in them.
    rate: T,
    epsilon: T,
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
        AdamRule {
            beta1: T::from_f64(self.beta1),
            beta2: T::from_f64(self.beta2),
            rate: T::from_f64(learning_rate * correction / (1.0 - beta1_pow)),
            epsilon: T::from_f64(self.epsilon * correction),
        }
    }
}

impl<T: Real> Rule<T, 2> for AdamRule<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, [mean, square]: [T; 2]) -> (T, [T; 2]) {
        let mean = self.beta1 * mean + (T::ONE - self.beta1) * grad;
        let square = self.beta2 * square + (T::ONE - self.beta2) * grad * grad;
        (param - self.rate * (mean / (square.sqrt() + self.epsilon)), [mean, square])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut update = Update::new(op, [("Moment1", "Moment1Out"), ("Moment2", "Moment2Out")])?;
    let beta1_pow = Power::new(op, "Beta1Pow", "beta1")?;
    let beta2_pow = Power::new(op, "Beta2Pow", "beta2")?;
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
        }, else => Err(not_float(dtype)))?;
        beta1_pow.advance(run, keep_powers)?;
        beta2_pow.advance(run, keep_powers)
    }))
}
