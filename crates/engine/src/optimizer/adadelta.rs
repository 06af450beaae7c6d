//! Adadelta: steps in the units of earlier steps, so that the learning rate hardly matters.

use bireme_ir::Op;

use super::apply::{Update, not_float};
use super::settings::{setters, settings_setters};
use super::{Absent, Optimizer, Real, Rule, Settings, Step};
use crate::lr::Lr;
use crate::op::{Kernel, OpDef, OpView, Slot, attr};
use crate::{Result, dispatch};

/// Adadelta.
#[derive(Clone, Debug)]
pub struct Adadelta {
    settings: Settings,
    rho: f32,
    epsilon: f32,
}

impl Adadelta {
    /// With this learning rate.
    pub fn new(learning_rate: impl Into<Lr>) -> Adadelta {
        Adadelta { settings: Settings::new(learning_rate.into()), rho: 0.95, epsilon: 1e-6 }
    }

    settings_setters!();

    setters! {
        /// How much of the means of squares stays; 0.95 by default.
        rho: f32;
        /// Keeps the division from zero; 1e-6 by default.
        epsilon: f32;
    }
}

impl Optimizer for Adadelta {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let grad = step.accumulator("_avg_squared_grad", 0.0);
        let update = step.accumulator("_avg_squared_update", 0.0);
        let op = grad.join(step.op("adadelta"), "AvgSquaredGrad");
        let op = update.join(op, "AvgSquaredUpdate");
        Ok(op.attr("rho", self.rho).attr("epsilon", self.epsilon))
    }
}

pub(super) const DEF: OpDef = OpDef::new("adadelta", kernel)
    .inputs(&[
        Slot::one("Param"),
        Slot::one("Grad"),
        Slot::one("AvgSquaredGrad"),
        Slot::one("AvgSquaredUpdate"),
        Slot::one("LearningRate"),
    ])
    .outputs(&[
        Slot::one("ParamOut"),
        Slot::one("AvgSquaredGradOut"),
        Slot::one("AvgSquaredUpdateOut"),
    ])
    .attrs(&[
        attr::float("rho", 0.95),
        attr::float("epsilon", 1.0e-6),
        attr::bool("multi_precision", false),
    ])
    .like(&[
        ("ParamOut", "Param"),
        ("AvgSquaredGradOut", "AvgSquaredGrad"),
        ("AvgSquaredUpdateOut", "AvgSquaredUpdate"),
    ])
    .inplace(&[
        ("Param", "ParamOut"),
        ("AvgSquaredGrad", "AvgSquaredGradOut"),
        ("AvgSquaredUpdate", "AvgSquaredUpdateOut"),
    ])
    .shared(&[
        "Param",
        "ParamOut",
        "AvgSquaredGrad",
        "AvgSquaredGradOut",
        "AvgSquaredUpdate",
        "AvgSquaredUpdateOut",
    ]);

/// The rule of [`Adadelta`]; its accumulators are the means of squared gradients and of squared
/// updates.
#[derive(Clone, Copy, Debug)]
pub struct AdadeltaRule<T> {
    rate: T,
    rho: T,
    epsilon: T,
}

impl<T: Real> AdadeltaRule<T> {
    /// With this learning rate.
    pub fn new(rho: f64, epsilon: f64, learning_rate: f64) -> AdadeltaRule<T> {
        AdadeltaRule {
            rate: T::from_f64(learning_rate),
            rho: T::from_f64(rho),
            epsilon: T::from_f64(epsilon),
        }
    }
}

impl<T: Real> Rule<T, 2> for AdadeltaRule<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, [grads, updates]: [T; 2]) -> (T, [T; 2]) {
        let fresh = T::ONE - self.rho;
        let grads = self.rho * grads + fresh * grad * grad;
        let update = -(((updates + self.epsilon) / (grads + self.epsilon)).sqrt() * grad);
        let updates = self.rho * updates + fresh * update * update;
        (param + self.rate * update, [grads, updates])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let state =
        [("AvgSquaredGrad", "AvgSquaredGradOut"), ("AvgSquaredUpdate", "AvgSquaredUpdateOut")];
    let mut update = Update::new(op, state)?;
    let (rho, epsilon) = (op.f64("rho")?, op.f64("epsilon")?);
    Ok(Box::new(move |run| {
        let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)?);
        dispatch!(dtype, T in [f32, f64] => {
            let rule = AdadeltaRule::new(rho, epsilon, rate);
            update.apply::<T, _>(run, &rule, Absent::ZeroGradient)
        }, else => Err(not_float(dtype)))
    }))
}
