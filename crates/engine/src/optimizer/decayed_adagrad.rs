//! Decayed Adagrad: Adagrad with a running mean of squares in place of their sum.

use super::prelude::*;

optimizer! {
    /// Adagrad that forgets.
    DecayedAdagrad() {
        /// How much of the mean of squares stays; 0.95 by default.
        decay: f32 = 0.95;
        /// Keeps the division from zero; 1e-6 by default.
        epsilon: f32 = 1e-6;
    }
}

impl Optimizer for DecayedAdagrad {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let moment = step.accumulator("moment", 0.0);
        let op = moment.join(step.op("decayed_adagrad"), "Moment");
        Ok(op.attr("decay", self.decay).attr("epsilon", self.epsilon))
    }
}

pub(super) const DEF: OpDef = OpDef::new("decayed_adagrad", kernel)
    .inputs(slots!["Param", "Grad", "Moment", "LearningRate"; "MasterParam"])
    .outputs(slots!["ParamOut", "MomentOut"; "MasterParamOut"])
    .attrs(&[attr::float("decay", 0.95), attr::float("epsilon", 1.0e-6)])
    .updates(&[("Param", "ParamOut"), MASTER, ("Moment", "MomentOut")])
    .shared(&["Param", "Moment"]);

rule! {
    /// The rule of [`DecayedAdagrad`]; its accumulator is the mean of squared gradients.
    pub DecayedAdagradRule::new { decay, epsilon, rate }
    |param, grad, [moment]| {
        let moment = decay * moment + (T::ONE - decay) * grad * grad;
        (param - rate * grad / (moment.sqrt() + epsilon), [moment])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (decay, epsilon) = (op.f64("decay")?, op.f64("epsilon")?);
    let state = [("Moment", "MomentOut")];
    update_kernel!(op, state, Absent::ZeroGradient, |rate| {
        DecayedAdagradRule::new(decay, epsilon, rate)
    })
}
