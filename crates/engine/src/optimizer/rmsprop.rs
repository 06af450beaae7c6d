//! RMSProp: steps over the root of the mean square of gradients, centred on request, with momentum.

use super::prelude::*;

optimizer! {
    /// RMSProp.
    RmsProp() {
        /// How much of the means stays; 0.95 by default.
        rho: f32 = 0.95;
        /// Keeps the division from zero; 1e-6 by default.
        epsilon: f32 = 1e-6;
        /// How much of the last step is added to this one; 0 by default.
        momentum: f32 = 0.0;
        /// Whether to divide by the variance instead of the mean square; no by default.
        centered: bool = false;
    }
}

impl Optimizer for RmsProp {
    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let momentum = step.accumulator("momentum", 0.0);
        let mean_square = step.accumulator("mean_square", 0.0);
        let mean_grad = step.accumulator("mean_grad", 0.0);
        let op = mean_square.join(momentum.join(step.op("rmsprop"), "Moment"), "MeanSquare");
        Ok(mean_grad
            .join(op, "MeanGrad")
            .attr("epsilon", self.epsilon)
            .attr("decay", self.rho)
            .attr("momentum", self.momentum)
            .attr("centered", self.centered))
    }
}

const SQUARE: (&str, &str) = ("MeanSquare", "MeanSquareOut");
const LAST: (&str, &str) = ("Moment", "MomentOut");
const MEAN: (&str, &str) = ("MeanGrad", "MeanGradOut");

pub(super) const DEF: OpDef = OpDef::new("rmsprop", kernel)
    .inputs(
        slots!["Param", "MeanSquare", "Grad", "Moment", "LearningRate"; "MeanGrad", "MasterParam"],
    )
    .outputs(slots!["ParamOut", "MomentOut", "MeanSquareOut"; "MeanGradOut", "MasterParamOut"])
    .attrs(&[
        attr::float("epsilon", 1.0e-10),
        attr::float("decay", 0.9),
        attr::float("momentum", 0.0),
        attr::bool("centered", false),
        attr::bool("multi_precision", false),
    ])
    .updates(&[("Param", "ParamOut"), MASTER, LAST, SQUARE, MEAN])
    .shared(&["Param", "Moment", "MeanSquare", "MeanGrad"]);

/// The numbers of [`RmsProp`].
#[derive(Clone, Copy, Debug)]
pub struct RmsPropConfig {
    /// How much of the means stays.
    pub decay: f64,
    /// Keeps the division from zero.
    pub epsilon: f64,
    /// How much of the last step is added to this one.
    pub momentum: f64,
}

rule! {
    /// The rule of [`RmsProp`]; its accumulators are the mean square, the last step and, for the
    /// centred rule, the mean gradient.
    RmsPropRule::with { rate, decay, epsilon, momentum }
    |param, grad, [square, last]| {
        let square = decay * square + (T::ONE - decay) * (grad * grad);
        let step = momentum * last + rate * grad / (square + epsilon).sqrt();
        (param - step, [square, step])
    }
    |param, grad, [square, last, mean]| {
        let square = decay * square + (T::ONE - decay) * (grad * grad);
        let mean = decay * mean + (T::ONE - decay) * grad;
        let step = momentum * last + rate * grad / (square - mean * mean + epsilon).sqrt();
        (param - step, [square, step, mean])
    }
}

impl<T: Real> RmsPropRule<T> {
    /// With this learning rate.
    pub fn new(config: &RmsPropConfig, learning_rate: f64) -> RmsPropRule<T> {
        RmsPropRule::with(learning_rate, config.decay, config.epsilon, config.momentum)
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let config = RmsPropConfig {
        decay: op.f64("decay")?,
        epsilon: op.f64("epsilon")?,
        momentum: op.f64("momentum")?,
    };
    let absent = Absent::ZeroGradient;
    if op.bool("centered")? {
        let state = [SQUARE, LAST, MEAN];
        return update_kernel!(op, state, absent, |rate| RmsPropRule::new(&config, rate));
    }
    let mut unused = op.maybe_in_out(MEAN.0, MEAN.1);
    let kernel: Result<Kernel> =
        update_kernel!(op, [SQUARE, LAST], absent, |rate| RmsPropRule::new(&config, rate));
    let mut kernel = kernel?;
    Ok(Box::new(move |run| {
        if let Some(unused) = &mut unused {
            // The mean gradient takes no part, but its value goes on.
            run.carry_over(unused)?;
        }
        kernel(run)
    }))
}
