//! FTRL-proximal: follows the regularised leader, and keeps parameters at exactly zero until their
//! gradients outweigh the L1 penalty.

use super::Rule;
use super::prelude::*;

optimizer! {
    /// FTRL.
    Ftrl() {
        /// The weight of the L1 penalty; 0 by default.
        l1: f32 = 0.0;
        /// The weight of the L2 penalty; 0 by default.
        l2: f32 = 0.0;
        /// How the rate falls with the sum of squares; -0.5 by default.
        lr_power: f32 = -0.5;
    }
}

impl Optimizer for Ftrl {
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

const STATE: [(&str, &str); 2] =
    [("SquaredAccumulator", "SquaredAccumOut"), ("LinearAccumulator", "LinearAccumOut")];

pub(super) const DEF: OpDef = OpDef::new("ftrl", kernel)
    .inputs(slots!["Param", "SquaredAccumulator", "LinearAccumulator", "Grad", "LearningRate"; "MasterParam"])
    .outputs(slots!["ParamOut", "SquaredAccumOut", "LinearAccumOut"; "MasterParamOut"])
    .attrs(&[attr::float("l1", 0.0), attr::float("l2", 0.0), attr::float("lr_power", -0.5)])
    .updates(&[("Param", "ParamOut"), MASTER, STATE[0], STATE[1]])
    .shared(&["Param", "SquaredAccumulator", "LinearAccumulator"]);

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
    let (l1, l2, lr_power) = (op.f64("l1")?, op.f64("l2")?, op.f64("lr_power")?);
    let config = FtrlConfig { l1, l2, lr_power };
    if lr_power == -0.5 {
        update_kernel!(op, STATE, Absent::Keep, |rate| FtrlRule::<T, true>::new(&config, rate))
    } else {
        update_kernel!(op, STATE, Absent::Keep, |rate| FtrlRule::<T, false>::new(&config, rate))
    }
}
