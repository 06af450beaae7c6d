//! Stochastic gradient descent: `param -= lr * grad`.

use super::prelude::*;

optimizer! {
    /// Stochastic gradient descent.
    Sgd() {}
}

impl Optimizer for Sgd {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        Ok(step.op("sgd"))
    }
}

pub(super) const DEF: OpDef =
    OpDef::new("sgd", |op| update_kernel!(op, [], Absent::Keep, |rate| SgdRule::new(rate)))
        .inputs(slots!["Param", "LearningRate", "Grad"; "MasterParam"])
        .outputs(slots!["ParamOut"; "MasterParamOut"])
        .attrs(&[attr::bool("multi_precision", false)])
        .updates(&[("Param", "ParamOut"), MASTER])
        .shared(&["Param"]);

rule! {
    /// The rule of [`Sgd`].
    pub SgdRule::new { rate }
    |param, grad, []| { (param - rate * grad, []) }
}
