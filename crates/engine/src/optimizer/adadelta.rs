//! Adadelta: steps in the units of earlier steps, so that the learning rate hardly matters.

use super::prelude::*;

optimizer! {
    /// Adadelta.
    Adadelta() {
        /// How much of the means of squares stays; 0.95 by default.
        rho: f32 = 0.95;
        /// Keeps the division from zero; 1e-6 by default.
        epsilon: f32 = 1e-6;
    }
}

impl Optimizer for Adadelta {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let grad = step.accumulator("_avg_squared_grad", 0.0);
        let update = step.accumulator("_avg_squared_update", 0.0);
        let op = grad.join(step.op("adadelta"), "AvgSquaredGrad");
        let op = update.join(op, "AvgSquaredUpdate");
        Ok(op.attr("rho", self.rho).attr("epsilon", self.epsilon))
    }
}

const STATE: [(&str, &str); 2] =
    [("AvgSquaredGrad", "AvgSquaredGradOut"), ("AvgSquaredUpdate", "AvgSquaredUpdateOut")];

pub(super) const DEF: OpDef = OpDef::new("adadelta", kernel)
    .inputs(slots!["Param", "Grad", "AvgSquaredGrad", "AvgSquaredUpdate", "LearningRate"; "MasterParam"])
    .outputs(slots!["ParamOut", "AvgSquaredGradOut", "AvgSquaredUpdateOut"; "MasterParamOut"])
    .attrs(&[
        attr::float("rho", 0.95),
        attr::float("epsilon", 1.0e-6),
        attr::bool("multi_precision", false),
    ])
    .updates(&[("Param", "ParamOut"), MASTER, STATE[0], STATE[1]])
    .shared(&["Param", "AvgSquaredGrad", "AvgSquaredUpdate"]);

rule! {
    /// The rule of [`Adadelta`]; its accumulators are the means of squared gradients and of squared
    /// updates.
    pub AdadeltaRule::new { rho, epsilon, rate }
    |param, grad, [grads, updates]| {
        let fresh = T::ONE - rho;
        let grads = rho * grads + fresh * grad * grad;
        let update = -(((updates + epsilon) / (grads + epsilon)).sqrt() * grad);
        let updates = rho * updates + fresh * update * update;
        (param + rate * update, [grads, updates])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (rho, epsilon) = (op.f64("rho")?, op.f64("epsilon")?);
    update_kernel!(op, STATE, Absent::ZeroGradient, |rate| AdadeltaRule::new(rho, epsilon, rate))
}
