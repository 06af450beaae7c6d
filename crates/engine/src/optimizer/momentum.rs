//! Momentum, plain and Nesterov's: `velocity = mu * velocity + grad`, and the parameter follows the
//! velocity. L2 decay is part of the op, as in Paddle.

use bireme_ir::{Op, Regularizer};

use super::apply::{Update, not_float};
use super::settings::{setters, settings_setters};
use super::{Absent, Optimizer, Real, Rule, Settings, Step};
use crate::lr::Lr;
use crate::op::{Kernel, OpDef, OpView, Slot, attr};
use crate::{Error, Result, dispatch};

/// Gradient descent with momentum.
#[derive(Clone, Debug)]
pub struct Momentum {
    settings: Settings,
    momentum: f32,
    use_nesterov: bool,
    rescale_grad: f32,
}

impl Momentum {
    /// With this learning rate and momentum (usually 0.9).
    pub fn new(learning_rate: impl Into<Lr>, momentum: f32) -> Momentum {
        let settings = Settings::new(learning_rate.into());
        Momentum { settings, momentum, use_nesterov: false, rescale_grad: 1.0 }
    }

    settings_setters!();

    setters! {
        /// Whether to look ahead along the velocity, as Nesterov does; no by default.
        use_nesterov: bool;
        /// A factor on every gradient; 1 by default.
        rescale_grad: f32;
    }
}

impl Optimizer for Momentum {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn decays_in_op(&self, regularizer: Regularizer) -> bool {
        matches!(regularizer, Regularizer::L2(_))
    }

    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let velocity = step.accumulator("velocity", 0.0);
        let (method, coeff) = match step.regularizer(&self.settings) {
            Some(Regularizer::L2(coeff)) => ("l2_decay", coeff),
            _ => ("", 0.0),
        };
        Ok(velocity
            .join(step.op("momentum"), "Velocity")
            .attr("mu", self.momentum)
            .attr("use_nesterov", self.use_nesterov)
            .attr("regularization_method", method)
            .attr("regularization_coeff", coeff)
            .attr("rescale_grad", self.rescale_grad))
    }
}

pub(super) const DEF: OpDef = OpDef::new("momentum", kernel)
    .inputs(&[
        Slot::one("Param"),
        Slot::one("Grad"),
        Slot::one("Velocity"),
        Slot::one("LearningRate"),
    ])
    .outputs(&[Slot::one("ParamOut"), Slot::one("VelocityOut")])
    .attrs(&[
        attr::float("mu", 0.0),
        attr::bool("use_nesterov", false),
        attr::str("regularization_method", ""),
        attr::float("regularization_coeff", 0.0),
        attr::bool("multi_precision", false),
        attr::float("rescale_grad", 1.0),
    ])
    .like(&[("ParamOut", "Param"), ("VelocityOut", "Velocity")])
    .inplace(&[("Param", "ParamOut"), ("Velocity", "VelocityOut")])
    .shared(&["Param", "ParamOut", "Velocity", "VelocityOut"]);

/// The numbers of [`Momentum`].
#[derive(Clone, Copy, Debug)]
pub struct MomentumConfig {
    /// How much of the velocity stays.
    pub mu: f64,
    /// Whether to look ahead along the velocity.
    pub use_nesterov: bool,
    /// How much of the parameter is added to its gradient.
    pub l2_decay: f64,
    /// A factor on every gradient.
    pub rescale_grad: f64,
}

/// The rule of [`Momentum`]; its accumulator is the velocity.
#[derive(Clone, Copy, Debug)]
pub struct MomentumRule<T> {
    rate: T,
    mu: T,
    l2_decay: T,
    rescale_grad: T,
    /// What the parameter follows: this much of the gradient, and this much of the velocity.
    follow: [T; 2],
}

impl<T: Real> MomentumRule<T> {
    /// With this learning rate.
    pub fn new(config: &MomentumConfig, learning_rate: f64) -> MomentumRule<T> {
        let mu = T::from_f64(config.mu);
        MomentumRule {
            rate: T::from_f64(learning_rate),
            mu,
            l2_decay: T::from_f64(config.l2_decay),
            rescale_grad: T::from_f64(config.rescale_grad),
            follow: if config.use_nesterov { [T::ONE, mu] } else { [T::ZERO, T::ONE] },
        }
    }
}

impl<T: Real> Rule<T, 1> for MomentumRule<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, [velocity]: [T; 1]) -> (T, [T; 1]) {
        let grad = grad * self.rescale_grad + param * self.l2_decay;
        let velocity = velocity * self.mu + grad;
        let step = grad * self.follow[0] + velocity * self.follow[1];
        (param - self.rate * step, [velocity])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut update = Update::new(op, [("Velocity", "VelocityOut")])?;
    let l2_decay = match op.string("regularization_method")?.as_str() {
        "" => 0.0,
        "l2_decay" => op.f64("regularization_coeff")?,
        other => {
            return Err(Error::kernel(format!(
                "`regularization_method` must be `l2_decay` or empty, not `{other}`"
            )));
        }
    };
    let config = MomentumConfig {
        mu: op.f64("mu")?,
        use_nesterov: op.bool("use_nesterov")?,
        l2_decay,
        rescale_grad: op.f64("rescale_grad")?,
    };
    Ok(Box::new(move |run| {
        let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)?);
        dispatch!(dtype, T in [f32, f64] => {
            update.apply::<T, _>(run, &MomentumRule::new(&config, rate), Absent::ZeroGradient)
        }, else => Err(not_float(dtype)))
    }))
}
