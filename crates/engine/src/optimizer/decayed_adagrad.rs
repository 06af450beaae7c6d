//! Decayed Adagrad: Adagrad with a running mean of squares in place of their sum.

use bireme_ir::Op;

use super::apply::{Update, not_float};
use super::settings::{setters, settings_setters};
use super::{Absent, Optimizer, Real, Rule, Settings, Step};
use crate::lr::Lr;
use crate::op::{Kernel, OpDef, OpView, Slot, attr};
use crate::{Result, dispatch};

/// Adagrad that forgets.
#[derive(Clone, Debug)]
pub struct DecayedAdagrad {
    settings: Settings,
    decay: f32,
    epsilon: f32,
}

impl DecayedAdagrad {
    /// With this learning rate.
    pub fn new(learning_rate: impl Into<Lr>) -> DecayedAdagrad {
        let settings = Settings::new(learning_rate.into());
        DecayedAdagrad { settings, decay: 0.95, epsilon: 1e-6 }
    }

    settings_setters!();

    setters! {
        /// How much of the mean of squares stays; 0.95 by default.
        decay: f32;
        /// Keeps the division from zero; 1e-6 by default.
        epsilon: f32;
    }
}

impl Optimizer for DecayedAdagrad {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let moment = step.accumulator("moment", 0.0);
        let op = moment.join(step.op("decayed_adagrad"), "Moment");
        Ok(op.attr("decay", self.decay).attr("epsilon", self.epsilon))
    }
}

pub(super) const DEF: OpDef = OpDef::new("decayed_adagrad", kernel)
    .inputs(&[
        Slot::one("Param"),
        Slot::one("Grad"),
        Slot::one("Moment"),
        Slot::one("LearningRate"),
    ])
    .outputs(&[Slot::one("ParamOut"), Slot::one("MomentOut")])
    .attrs(&[attr::float("decay", 0.95), attr::float("epsilon", 1.0e-6)])
    .like(&[("ParamOut", "Param"), ("MomentOut", "Moment")])
    .inplace(&[("Param", "ParamOut"), ("Moment", "MomentOut")])
    .shared(&["Param", "ParamOut", "Moment", "MomentOut"]);

/// The rule of [`DecayedAdagrad`]; its accumulator is the mean of squared gradients.
#[derive(Clone, Copy, Debug)]
pub struct DecayedAdagradRule<T> {
    rate: T,
    decay: T,
    epsilon: T,
}

impl<T: Real> DecayedAdagradRule<T> {
    /// With this learning rate.
    pub fn new(decay: f64, epsilon: f64, learning_rate: f64) -> DecayedAdagradRule<T> {
        DecayedAdagradRule {
            rate: T::from_f64(learning_rate),
            decay: T::from_f64(decay),
            epsilon: T::from_f64(epsilon),
        }
    }
}

impl<T: Real> Rule<T, 1> for DecayedAdagradRule<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, [moment]: [T; 1]) -> (T, [T; 1]) {
        let moment = self.decay * moment + (T::ONE - self.decay) * grad * grad;
        (param - self.rate * grad / (moment.sqrt() + self.epsilon), [moment])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut update = Update::new(op, [("Moment", "MomentOut")])?;
    let (decay, epsilon) = (op.f64("decay")?, op.f64("epsilon")?);
    Ok(Box::new(move |run| {
        let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)?);
        dispatch!(dtype, T in [f32, f64] => {
            let rule = DecayedAdagradRule::new(decay, epsilon, rate);
            update.apply::<T, _>(run, &rule, Absent::ZeroGradient)
        }, else => Err(not_float(dtype)))
    }))
}
