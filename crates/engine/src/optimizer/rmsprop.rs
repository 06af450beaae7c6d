//! RMSProp: steps over the root of the mean square of gradients, centred on request, with momentum.

use bireme_ir::Op;

use super::apply::{Update, not_float};
use super::settings::{setters, settings_setters};
use super::{Absent, Optimizer, Real, Rule, Settings, Step};
use crate::lr::Lr;
use crate::op::{Kernel, OpDef, OpView, Slot, attr};
use crate::{Result, dispatch};

/// RMSProp.
#[derive(Clone, Debug)]
pub struct RmsProp {
    settings: Settings,
    rho: f32,
    epsilon: f32,
    momentum: f32,
    centered: bool,
}

impl RmsProp {
    /// With this learning rate.
    pub fn new(learning_rate: impl Into<Lr>) -> RmsProp {
        let settings = Settings::new(learning_rate.into());
        RmsProp { settings, rho: 0.95, epsilon: 1e-6, momentum: 0.0, centered: false }
    }

    settings_setters!();

    setters! {
        /// How much of the means stays; 0.95 by default.
        rho: f32;
        /// Keeps the division from zero; 1e-6 by default.
        epsilon: f32;
        /// How much of the last step is added to this one; 0 by default.
        momentum: f32;
        /// Whether to divide by the variance instead of the mean square; no by default.
        centered: bool;
    }
}

impl Optimizer for RmsProp {
    fn settings(&self) -> &Settings {
        &self.settings
    }

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

pub(super) const DEF: OpDef = OpDef::new("rmsprop", kernel)
    .inputs(&[
        Slot::one("Param"),
        Slot::one("MeanSquare"),
        Slot::one("Grad"),
        Slot::one("Moment"),
        Slot::one("LearningRate"),
        Slot::maybe("MeanGrad"),
    ])
    .outputs(&[
        Slot::one("ParamOut"),
        Slot::one("MomentOut"),
        Slot::one("MeanSquareOut"),
        Slot::maybe("MeanGradOut"),
    ])
    .attrs(&[
        attr::float("epsilon", 1.0e-10),
        attr::float("decay", 0.9),
        attr::float("momentum", 0.0),
        attr::bool("centered", false),
        attr::bool("multi_precision", false),
    ])
    .like(&[
        ("ParamOut", "Param"),
        ("MomentOut", "Moment"),
        ("MeanSquareOut", "MeanSquare"),
        ("MeanGradOut", "MeanGrad"),
    ])
    .inplace(&[
        ("Param", "ParamOut"),
        ("Moment", "MomentOut"),
        ("MeanSquare", "MeanSquareOut"),
        ("MeanGrad", "MeanGradOut"),
    ])
    .shared(&[
        "Param",
        "ParamOut",
        "Moment",
        "MomentOut",
        "MeanSquare",
        "MeanSquareOut",
        "MeanGrad",
        "MeanGradOut",
    ]);

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

/// The rule of [`RmsProp`]; its accumulators are the mean square, the last step and, for the
/// centred rule, the mean gradient.
#[derive(Clone, Copy, Debug)]
pub struct RmsPropRule<T> {
    rate: T,
    decay: T,
    epsilon: T,
    momentum: T,
}

impl<T: Real> RmsPropRule<T> {
    /// With this learning rate.
    pub fn new(config: &RmsPropConfig, learning_rate: f64) -> RmsPropRule<T> {
        RmsPropRule {
            rate: T::from_f64(learning_rate),
            decay: T::from_f64(config.decay),
            epsilon: T::from_f64(config.epsilon),
            momentum: T::from_f64(config.momentum),
        }
    }

    /// The running mean with `value` in it.
    #[inline(always)]
    fn mean(&self, mean: T, value: T) -> T {
        self.decay * mean + (T::ONE - self.decay) * value
    }

    #[inline(always)]
    fn step(&self, grad: T, spread: T, last: T) -> T {
        self.momentum * last + self.rate * grad / (spread + self.epsilon).sqrt()
    }
}

impl<T: Real> Rule<T, 2> for RmsPropRule<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, [square, last]: [T; 2]) -> (T, [T; 2]) {
        let square = self.mean(square, grad * grad);
        let step = self.step(grad, square, last);
        (param - step, [square, step])
    }
}

impl<T: Real> Rule<T, 3> for RmsPropRule<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, [square, last, mean]: [T; 3]) -> (T, [T; 3]) {
        let square = self.mean(square, grad * grad);
        let mean = self.mean(mean, grad);
        let step = self.step(grad, square - mean * mean, last);
        (param - step, [square, step, mean])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let config = RmsPropConfig {
        decay: op.f64("decay")?,
        epsilon: op.f64("epsilon")?,
        momentum: op.f64("momentum")?,
    };
    let state = [("MeanSquare", "MeanSquareOut"), ("Moment", "MomentOut")];
    if op.bool("centered")? {
        let mut update = Update::new(op, [state[0], state[1], ("MeanGrad", "MeanGradOut")])?;
        return Ok(Box::new(move |run| {
            let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)?);
            dispatch!(dtype, T in [f32, f64] => {
                update.apply::<T, _>(run, &RmsPropRule::new(&config, rate), Absent::ZeroGradient)
            }, else => Err(not_float(dtype)))
        }));
    }
    let mut update = Update::new(op, state)?;
    let mean_grad = op.maybe_input("MeanGrad").zip(op.maybe_output("MeanGradOut"));
    Ok(Box::new(move |run| {
        let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)?);
        dispatch!(dtype, T in [f32, f64] => {
            if let Some((input, output)) = mean_grad {
                // Unused here, but its value goes on.
                run.carry_over(input, output)?;
            }
            update.apply::<T, _>(run, &RmsPropRule::new(&config, rate), Absent::ZeroGradient)
        }, else => Err(not_float(dtype)))
    }))
}
