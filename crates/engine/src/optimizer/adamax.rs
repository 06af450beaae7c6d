//! Adamax: Adam with the decayed greatest gradient in place of the mean square.

use super::apply::{Update, number};
use super::prelude::*;
use crate::dispatch;
use crate::op::not_float;

optimizer! {
    /// Adamax.
    Adamax() {
        /// How much of the mean gradient stays; 0.9 by default.
        beta1: f32 = 0.9;
        /// How much of the greatest gradient stays; 0.999 by default.
        beta2: f32 = 0.999;
        /// Keeps the division from zero; 1e-8 by default.
        epsilon: f32 = 1e-8;
    }
}

impl Optimizer for Adamax {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let moment = step.accumulator("moment", 0.0);
        let inf_norm = step.accumulator("inf_norm", 0.0);
        let beta1_pow = step.number("beta1_pow_acc", self.beta1);
        let op = inf_norm.join(moment.join(step.op("adamax"), "Moment"), "InfNorm");
        Ok(op
            .input("Beta1Pow", [beta1_pow.name()])
            .attr("beta1", self.beta1)
            .attr("beta2", self.beta2)
            .attr("epsilon", self.epsilon))
    }

    /// Raises the power, which the op itself only reads.
    fn finish(&self, step: &Step<'_>, update: &Op) -> Option<Op> {
        let power = update.inputs_of("Beta1Pow");
        let op = step.tagged(Op::new("scale").input("X", power).output("Out", power));
        Some(op.attr("scale", self.beta1).attr("bias", 0.0f32).attr("bias_after_scale", true))
    }
}

pub(super) const DEF: OpDef = OpDef::new("adamax", kernel)
    .inputs(slots!["Param", "Grad", "LearningRate", "Moment", "InfNorm", "Beta1Pow"; "MasterParam"])
    .outputs(slots!["ParamOut", "MomentOut", "InfNormOut"; "MasterParamOut"])
    .attrs(&[
        attr::float("beta1", 0.9),
        attr::float("beta2", 0.999),
        attr::float("epsilon", 1.0e-8),
        attr::bool("multi_precision", false),
    ])
    .updates(&[("Param", "ParamOut"), MASTER, ("Moment", "MomentOut"), ("InfNorm", "InfNormOut")])
    .shared(&["Param", "Moment", "InfNorm"]);

rule! {
    /// The rule of [`Adamax`]; its accumulators are the mean gradient and the greatest one.
    AdamaxRule::with { beta1, beta2, epsilon, rate }
    |param, grad, [mean, greatest]| {
        let mean = beta1 * mean + (T::ONE - beta1) * grad;
        let greatest = grad.abs().greater(beta2 * greatest + epsilon);
        (param - rate * (mean / greatest), [mean, greatest])
    }
}

impl<T: Real> AdamaxRule<T> {
    /// The rule of one step; `beta1_pow` is `beta1` to the power of the number of this step, from
    /// 1.
    pub fn new(
        beta1: f64,
        beta2: f64,
        epsilon: f64,
        learning_rate: f64,
        beta1_pow: f64,
    ) -> AdamaxRule<T> {
        AdamaxRule::with(beta1, beta2, epsilon, learning_rate / (1.0 - beta1_pow))
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut update = Update::new(op, [("Moment", "MomentOut"), ("InfNorm", "InfNormOut")])?;
    // The power has no output slot here; `finish` appends the op that raises it.
    let beta1_pow = op.input("Beta1Pow")?;
    let (beta1, beta2, epsilon) = (op.f64("beta1")?, op.f64("beta2")?, op.f64("epsilon")?);
    Ok(Box::new(move |run| {
        let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)?);
        let power = number(run.tensor(beta1_pow)?)?;
        dispatch!(dtype, T in [f32, f64] => {
            let rule = AdamaxRule::new(beta1, beta2, epsilon, rate, power);
            update.apply::<T, _>(run, &rule, Absent::ZeroGradient)
        }, else => Err(not_float("Param", dtype)))
    }))
}
