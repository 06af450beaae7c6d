//! FTRL-proximal: follows the regularised leader, and keeps parameters at exactly zero until their
//! gradients outweigh the L1 penalty.

use bireme_ir::Op;

use super::apply::{Update, not_float};
use super::settings::{setters, settings_setters};
use super::{Absent, Optimizer, Real, Rule, Settings, Step};
use crate::lr::Lr;
use crate::op::{Kernel, OpDef, OpView, Slot, attr};
use crate::{Result, dispatch};

/// FTRL.
#[derive(Clone, Debug)]
pub struct Ftrl {
    settings: Settings,
    l1: f32,
    l2: f32,
    lr_power: f32,
}

impl Ftrl {
    /// With this learning rate.
    pub fn new(learning_rate: impl Into<Lr>) -> Ftrl {
        Ftrl { settings: Settings::new(learning_rate.into()), l1: 0.0, l2: 0.0, lr_power: -0.5 }
    }

    settings_setters!();

    setters! {
        /// The weight of the L1 penalty; 0 by default.
        l1: f32;
        /// The weight of the L2 penalty; 0 by default.
        l2: f32;
        /// How the rate falls with the sum of squares; -0.5 by default.
        lr_power: f32;
    }
}

impl Optimizer for Ftrl {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn update(&self, step: &Step<'_>) -> Result<Op> {
        let squared = step.accumulator("squared", 0.0);
        let linear = step.accumulator("linear", 0.0);
        Ok(step
            .op("ftrl")
            .input("SquaredAccumulator", [squared.name()])
            .input("LinearAccumulator", [linear.name()])
            .output("SquaredAccumOut", [squared.name()])
            .output("LinearAccumOut", [linear.name()])
            .attr("l1", self.l1)
            .attr("l2", self.l2)
            .attr("lr_power", self.lr_power))
    }
}

pub(super) const DEF: OpDef = OpDef::new("ftrl", kernel)
    .inputs(&[
        Slot::one("Param"),
        Slot::one("SquaredAccumulator"),
        Slot::one("LinearAccumulator"),
        Slot::one("Grad"),
        Slot::one("LearningRate"),
    ])
    .outputs(&[Slot::one("ParamOut"), Slot::one("SquaredAccumOut"), Slot::one("LinearAccumOut")])
    .attrs(&[attr::float("l1", 0.0), attr::float("l2", 0.0), attr::float("lr_power", -0.5)])
    .like(&[
        ("ParamOut", "Param"),
        ("SquaredAccumOut", "SquaredAccumulator"),
        ("LinearAccumOut", "LinearAccumulator"),
    ])
    .inplace(&[
        ("Param", "ParamOut"),
        ("SquaredAccumulator", "SquaredAccumOut"),
        ("LinearAccumulator", "LinearAccumOut"),
    ])
    .shared(&[
        "Param",
        "ParamOut",
        "SquaredAccumulator",
        "SquaredAccumOut",
        "LinearAccumulator",
        "LinearAccumOut",
    ]);

/// The numbers of [`Ftrl`].
#[derive(Clone, Copy, Debug)]
pub struct FtrlConfig {
    /// The weight of the L1 penalty.
    pub l1: f64,
    /// The weight of the L2 penalty.
    pub l2: f64,
    /// How the rate falls with the sum of squares.
    pub lr_power: f64,
}

/// The rule of [`Ftrl`]; its accumulators are the sum of squares and the linear term. `SQRT` says
/// that `lr_power` is -0.5, which needs no general power.
#[derive(Clone, Copy, Debug)]
pub struct FtrlRule<T, const SQRT: bool> {
    rate: T,
    l1: T,
    l2: T,
    power: T,
}

impl<T: Real, const SQRT: bool> FtrlRule<T, SQRT> {
    /// With this learning rate.
    pub fn new(config: &FtrlConfig, learning_rate: f64) -> FtrlRule<T, SQRT> {
        // Paddle's kernel adds this much, so that a parameter never divides by zero.
        const TINY: f64 = 1e-10;
        FtrlRule {
            rate: T::from_f64(learning_rate),
            l1: T::from_f64(config.l1 + TINY),
            l2: T::from_f64(config.l2 + TINY),
            power: T::from_f64(-config.lr_power),
        }
    }

    #[inline(always)]
    fn root(&self, square: T) -> T {
        if SQRT { square.sqrt() } else { square.powf(self.power) }
    }
}

impl<T: Real, const SQRT: bool> Rule<T, 2> for FtrlRule<T, SQRT> {
    #[inline(always)]
    fn element(&self, param: T, grad: T, [square, linear]: [T; 2]) -> (T, [T; 2]) {
        let sum = square + grad * grad;
        let root = self.root(sum);
        let linear = linear + grad - (root - self.root(square)) / self.rate * param;
        let moved = (self.l1.copysign(linear) - linear) / (root / self.rate + (self.l2 + self.l2));
        (if linear.abs() > self.l1 { moved } else { T::ZERO }, [sum, linear])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let state =
        [("SquaredAccumulator", "SquaredAccumOut"), ("LinearAccumulator", "LinearAccumOut")];
    let mut update = Update::new(op, state)?;
    let (l1, l2, lr_power) = (op.f64("l1")?, op.f64("l2")?, op.f64("lr_power")?);
    let config = FtrlConfig { l1, l2, lr_power };
    Ok(Box::new(move |run| {
        let (dtype, rate) = (update.dtype(run)?, update.learning_rate(run)?);
        dispatch!(dtype, T in [f32, f64] => {
            if lr_power == -0.5 {
                let rule = FtrlRule::<T, true>::new(&config, rate);
                update.apply::<T, _>(run, &rule, Absent::Keep)
            } else {
                let rule = FtrlRule::<T, false>::new(&config, rate);
                update.apply::<T, _>(run, &rule, Absent::Keep)
            }
        }, else => Err(not_float(dtype)))
    }))
}
