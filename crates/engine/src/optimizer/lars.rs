//! Lars: momentum whose rate is in proportion to the norm of the parameter over that of its
//! gradient. The norms are of whole tensors, so an update cannot be shared out.

use bireme_ir::AttrKind;

use super::apply::{Update, Whole};
use super::norm::norm;
use super::prelude::*;
use super::{Rule, rule};
use crate::op::not_float;
use crate::{Error, dispatch};

optimizer! {
    /// Layer-wise adaptive rate scaling with momentum (usually 0.9), for large batches.
    Lars(momentum: f32) {
        /// The ratio of a step to the parameter's norm; 0.001 by default.
        lars_coeff: f32 = 0.001;
        /// How much of a parameter is added to its gradient; 0.0005 by default.
        lars_weight_decay: f32 = 0.0005;
        /// Keeps the division from zero; 0 by default.
        epsilon: f32 = 0.0;
        /// A factor on every gradient; 1 by default.
        rescale_grad: f32 = 1.0;
    }
    names {
        /// Lets these parameters keep their weight and the plain rate: biases, scales of
        /// normalisations.
        without_decay
    }
}

impl Optimizer for Lars {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let decays = !self.without_decay.iter().any(|name| name == step.param.name());
        let decay = if decays { self.lars_weight_decay } else { 0.0 };
        let velocity = step.accumulator("velocity", 0.0);
        Ok(velocity
            .join(step.op("lars_momentum"), "Velocity")
            .attr("mu", self.momentum)
            .attr("lars_coeff", self.lars_coeff)
            .attr("lars_weight_decay", vec![decay])
            .attr("epsilon", self.epsilon)
            .attr("rescale_grad", self.rescale_grad))
    }
}

/// Paddle lets one op update many parameters; programs made by its optimizers give it one.
pub(super) const DEF: OpDef = OpDef::new("lars_momentum", kernel)
    .inputs(slots!["Param", "Grad", "Velocity", "LearningRate"; "MasterParam"])
    .outputs(slots!["ParamOut", "VelocityOut"; "MasterParamOut"])
    .attrs(&[
        attr::required("mu", AttrKind::Float),
        attr::float("lars_coeff", 0.001),
        attr::floats("lars_weight_decay", &[0.0005]),
        attr::float("epsilon", 0.0),
        attr::bool("multi_precision", false),
        attr::float("rescale_grad", 1.0),
    ])
    .updates(&[("Param", "ParamOut"), MASTER, ("Velocity", "VelocityOut")]);

/// The numbers of [`Lars`] in one step.
#[derive(Clone, Copy, Debug)]
pub struct LarsRule {
    /// How much of the velocity stays.
    pub mu: f64,
    /// The ratio of a step to the parameter's norm.
    pub coeff: f64,
    /// How much of a parameter is added to its gradient.
    pub weight_decay: f64,
    /// Keeps the division from zero.
    pub epsilon: f64,
    /// A factor on every gradient.
    pub rescale_grad: f64,
    /// The learning rate.
    pub learning_rate: f64,
}

impl LarsRule {
    /// Updates a whole parameter; the accumulator is the velocity.
    pub fn update<T: Real>(&self, param: &mut [T], grad: &[T], velocity: &mut [T]) {
        let size = norm([param; 3], |param, _, _| param);
        let slope = norm([grad; 3], |grad, _, _| grad) * self.rescale_grad;
        let mut rate = self.learning_rate;
        if self.weight_decay > 0.0 && size > 0.0 && slope > 0.0 {
            rate *= self.coeff * size / (slope + self.weight_decay * size + self.epsilon);
        }
        let local = Local {
            mu: T::from_f64(self.mu),
            grad: T::from_f64(rate * self.rescale_grad),
            param: T::from_f64(rate * self.weight_decay),
        };
        rule::update(&local, param, grad, [velocity]);
    }
}

/// The update of a parameter whose own rate is known.
#[derive(Clone, Copy, Debug)]
struct Local<T> {
    mu: T,
    /// What gradient and parameter add to the velocity.
    grad: T,
    param: T,
}

impl<T: Real> Rule<T, 1> for Local<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, [velocity]: [T; 1]) -> (T, [T; 1]) {
        let velocity = self.mu * velocity + (self.grad * grad + self.param * param);
        (param - velocity, [velocity])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut update = Update::new(op, [("Velocity", "VelocityOut")])?;
    let decay = op.floats("lars_weight_decay")?;
    let [weight_decay] = decay[..] else {
        return Err(Error::kernel(format!(
            "`lars_weight_decay` must hold one number, as the op updates one parameter, not {}",
            decay.len()
        )));
    };
    let mut rule = LarsRule {
        mu: op.f64("mu")?,
        coeff: op.f64("lars_coeff")?,
        weight_decay,
        epsilon: op.f64("epsilon")?,
        rescale_grad: op.f64("rescale_grad")?,
        learning_rate: 0.0,
    };
    Ok(Box::new(move |run| {
        let dtype = update.dtype(run)?;
        rule.learning_rate = update.learning_rate(run)?;
        dispatch!(dtype, T in [f32, f64] => {
            let Whole { param, grad, state: [velocity] } = update.whole::<T>(run)?;
            rule.update(param, grad, velocity);
            update.round(run)
        }, else => Err(not_float("Param", dtype)))
    }))
}
