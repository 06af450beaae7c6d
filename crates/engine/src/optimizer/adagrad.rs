//! Adagrad: each element's rate falls with the sum of its squared gradients.

use bireme_ir::Op;

use super::apply::{Update, not_float};
use super::settings::{setters, settings_setters};
use super::{Absent, Optimizer, Real, Rule, Settings, Step};
use crate::lr::Lr;
use crate::op::{Kernel, OpDef, OpView, Slot, attr};
use crate::{Result, dispatch};

/// Adagrad.
#[derive(Clone, Debug)]
pub struct Adagrad {
    settings: Settings,
    epsilon: f32,
    initial_accumulator_value: f32,
}

impl Adagrad {
    /// With this learning rate.
    pub fn new(learning_rate: impl Into<Lr>) -> Adagrad {
        let settings = Settings::new(learning_rate.into());
        Adagrad { settings, epsilon: 1e-6, initial_accumulator_value: 0.0 }
    }

    settings_setters!();

    setters! {
        /// Keeps the division from zero; 1e-6 by default.
        epsilon: f32;
        /// Where the sums of squares start; 0 by default.
        initial_accumulator_value: f32;
    }
}

impl Optimizer for Adagrad {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let moment = step.accumulator("moment", self.initial_accumulator_value);
        Ok(moment.join(step.op("adagrad"), "Moment").attr("epsilon", self.epsilon))
    }
}

pub(super) const DEF: OpDef = OpDef::new("adagrad", kernel)
    .inputs(&[
        Slot::one("Param"),
        Slot::one("Grad"),
        Slot::one("Moment"),
        Slot::one("LearningRate"),
    ])
    .outputs(&[Slot::one("ParamOut"), Slot::one("MomentOut")])
    .attrs(&[attr::float("epsilon", 1.0e-6), attr::bool("multi_precision", false)])
    .like(&[("ParamOut", "Param"), ("MomentOut", "Moment")])
    .inplace(&[("Param", "ParamOut"), ("Moment", "MomentOut")])
    .shared(&["Param", "ParamOut", "Moment", "MomentOut"]);

/// The rule of [`Adagrad`]; its accumulator is the sum of squared gradients.
#[derive(Clone, Copy, Debug)]
pub struct AdagradRule<T> {
    rate: T,
    epsilon: T,
}

impl<T: Real> AdagradRule<T> {
    /// With this learning rate.
    pub fn new(epsilon: f64, learning_rate: f64) -> AdagradRule<T> {
        AdagradRule { rate: T::from_f64(learning_rate), epsilon: T::from_f64(epsilon) }
    }
}

impl<T: Real> Rule<T, 1> for AdagradRule<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, [moment]: [T; 1]) -> (T, [T; 1]) {
        let moment = moment + grad * grad;
        (param - self.rate * grad / (moment.sqrt() + self.epsilon), [moment])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut update = Update::new(op, [("Moment", "MomentOut")])?;
    let epsilon = op.f64("epsilon")?;
    Ok(Box::new(move |run| {
        let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)?);
        dispatch!(dtype, T in [f32, f64] => {
            update.apply::<T, _>(run, &AdagradRule::new(epsilon, rate), Absent::Keep)
        }, else => Err(not_float(dtype)))
    }))
}
