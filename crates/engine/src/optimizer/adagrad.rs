//! Adagrad: each element's rate falls with the sum of its squared gradients.

use super::prelude::*;

optimizer! {
    /// Adagrad.
    Adagrad() {
        /// Keeps the division from zero; 1e-6 by default.
        epsilon: f32 = 1e-6;
        /// Where the sums of squares start; 0 by default.
        initial_accumulator_value: f32 = 0.0;
    }
}

impl Optimizer for Adagrad {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let moment = step.accumulator("moment", self.initial_accumulator_value);
        Ok(moment.join(step.op("adagrad"), "Moment").attr("epsilon", self.epsilon))
    }
}

pub(super) const DEF: OpDef = OpDef::new("adagrad", kernel)
    .inputs(slots!["Param", "Grad", "Moment", "LearningRate"; "MasterParam"])
    .outputs(slots!["ParamOut", "MomentOut"; "MasterParamOut"])
    .attrs(&[attr::float("epsilon", 1.0e-6), attr::bool("multi_precision", false)])
    .updates(&[("Param", "ParamOut"), MASTER, ("Moment", "MomentOut")])
    .shared(&["Param", "Moment"]);

rule! {
    /// The rule of [`Adagrad`]; its accumulator is the sum of squared gradients.
    pub AdagradRule::new { epsilon, rate }
    |param, grad, [moment]| {
        let moment = moment + grad * grad;
        (param - rate * grad / (moment.sqrt() + epsilon), [moment])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let epsilon = op.f64("epsilon")?;
    let state = [("Moment", "MomentOut")];
    update_kernel!(op, state, Absent::Keep, |rate| AdagradRule::new(epsilon, rate))
}
