//! Stochastic gradient descent: `param -= lr * grad`.

use bireme_ir::Op;

use super::apply::{Update, not_float};
use super::settings::settings_setters;
use super::{Absent, Optimizer, Real, Rule, Settings, Step};
use crate::lr::Lr;
use crate::op::{Kernel, OpDef, OpView, Slot, attr};
use crate::{Result, dispatch};

/// Stochastic gradient descent.
#[derive(Clone, Debug)]
pub struct Sgd {
    settings: Settings,
}

impl Sgd {
    /// With this learning rate.
    pub fn new(learning_rate: impl Into<Lr>) -> Sgd {
        Sgd { settings: Settings::new(learning_rate.into()) }
    }

    settings_setters!();
}

impl Optimizer for Sgd {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn update(&self, step: &Step<'_>) -> Result<Op> {
        Ok(step.op("sgd"))
    }
}

pub(super) const DEF: OpDef = OpDef::new("sgd", kernel)
    .inputs(&[Slot::one("Param"), Slot::one("LearningRate"), Slot::one("Grad")])
    .outputs(&[Slot::one("ParamOut")])
    .attrs(&[attr::bool("multi_precision", false)])
    .like(&[("ParamOut", "Param")])
    .inplace(&[("Param", "ParamOut")])
    .shared(&["Param", "ParamOut"]);

/// The rule of [`Sgd`].
#[derive(Clone, Copy, Debug)]
pub struct SgdRule<T> {
    rate: T,
}

impl<T: Real> SgdRule<T> {
    /// With this learning rate.
    pub fn new(learning_rate: f64) -> SgdRule<T> {
        SgdRule { rate: T::from_f64(learning_rate) }
    }
}

impl<T: Real> Rule<T, 0> for SgdRule<T> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, _: [T; 0]) -> (T, [T; 0]) {
        (param - self.rate * grad, [])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let mut update = Update::new(op, [])?;
    Ok(Box::new(move |run| {
        let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)?);
        dispatch!(dtype, T in [f32, f64] => {
            update.apply::<T, _>(run, &SgdRule::new(rate), Absent::Keep)
        }, else => Err(not_float(dtype)))
    }))
}
