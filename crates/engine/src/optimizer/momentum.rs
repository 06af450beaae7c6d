//! Momentum, plain and Nesterov's: `velocity = mu * velocity + grad`, and the parameter follows the
//! velocity. L2 decay is part of the op, as in Paddle.

use bireme_ir::Regularizer;

use super::prelude::*;
use crate::Error;

optimizer! {
    /// Gradient descent with momentum (usually 0.9).
    Momentum(momentum: f32) {
        /// Whether to look ahead along the velocity, as Nesterov does; no by default.
        use_nesterov: bool = false;
        /// A factor on every gradient; 1 by default.
        rescale_grad: f32 = 1.0;
    }
}

impl Optimizer for Momentum {
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
    .inputs(slots!["Param", "Grad", "Velocity", "LearningRate"; "MasterParam"])
    .outputs(slots!["ParamOut", "VelocityOut"; "MasterParamOut"])
    .attrs(&[
        attr::float("mu", 0.0),
        attr::bool("use_nesterov", false),
        attr::str("regularization_method", ""),
        attr::float("regularization_coeff", 0.0),
        attr::bool("multi_precision", false),
        attr::float("rescale_grad", 1.0),
    ])
    .updates(&[("Param", "ParamOut"), MASTER, ("Velocity", "VelocityOut")])
    .shared(&["Param", "Velocity"]);

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

rule! {
    /// The rule of [`Momentum`]; its accumulator is the velocity. The parameter follows some of the
    /// gradient and some of the velocity.
    MomentumRule::with { rate, mu, l2_decay, rescale_grad, of_grad, of_velocity }
    |param, grad, [velocity]| {
        let grad = grad * rescale_grad + param * l2_decay;
        let velocity = velocity * mu + grad;
        let step = grad * of_grad + velocity * of_velocity;
        (param - rate * step, [velocity])
    }
}

impl<T: Real> MomentumRule<T> {
    /// With this learning rate.
    pub fn new(config: &MomentumConfig, learning_rate: f64) -> MomentumRule<T> {
        let MomentumConfig { mu, use_nesterov, l2_decay, rescale_grad } = *config;
        let (of_grad, of_velocity) = if use_nesterov { (1.0, mu) } else { (0.0, 1.0) };
        MomentumRule::with(learning_rate, mu, l2_decay, rescale_grad, of_grad, of_velocity)
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
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
    let state = [("Velocity", "VelocityOut")];
    update_kernel!(op, state, Absent::ZeroGradient, |rate| MomentumRule::new(&config, rate))
}
