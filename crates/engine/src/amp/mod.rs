//! Mixed precision: products and what lies between them with 16 bits, everything that needs digits with 32.
//!
//! [`rewrite`] inserts `cast` ops into a program, by lists of op types; [`MixedPrecision`] is an optimizer that does so
//! before it differentiates, scales the loss where gradients of `float16` would vanish, and updates parameters in 32
//! bits: their own, or those of a master copy.

mod lists;
mod optimizer;
mod rewrite;

#[cfg(test)]
mod tests;

use bireme_ir::DType;

pub use lists::{Color, Lists};
pub use optimizer::MixedPrecision;
pub(crate) use rewrite::kept_slots;
pub use rewrite::{Rewritten, rewrite};

use crate::{Error, Result};

/// How far a program goes over to 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Parameters are of 32 bits, and cast once a step.
    #[default]
    O1,
    /// Parameters that only 16-bit ops use are of 16 bits; optimizers keep a master copy of 32.
    O2,
}

/// The factor of a loss, and how it changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaling {
    /// The first factor.
    pub initial: f32,
    /// How it follows what happens; none for one that stays.
    pub dynamic: Option<Dynamic>,
}

/// When the factor of a loss is raised and lowered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dynamic {
    /// Good steps in a row after which it is raised.
    pub incr_every_n_steps: i32,
    /// Bad steps after which it is lowered.
    pub decr_every_n_nan_or_inf: i32,
    /// What it is multiplied by when it is raised.
    pub incr_ratio: f32,
    /// What it is multiplied by when it is lowered.
    pub decr_ratio: f32,
}

impl Default for Dynamic {
    fn default() -> Dynamic {
        Dynamic {
            incr_every_n_steps: 1000,
            decr_every_n_nan_or_inf: 2,
            incr_ratio: 2.0,
            decr_ratio: 0.8,
        }
    }
}

impl LossScaling {
    /// No scaling.
    pub const NONE: LossScaling = LossScaling { initial: 1.0, dynamic: None };

    /// Whether the loss is left as it is.
    pub fn is_none(&self) -> bool {
        self.dynamic.is_none() && self.initial == 1.0
    }
}

/// What mixed precision is asked for.
#[derive(Clone, Debug)]
pub struct Amp {
    /// The type of 16 bits.
    pub dtype: DType,
    /// How far it goes.
    pub level: Level,
    /// Which ops take part.
    pub lists: Lists,
    /// The factor of the loss.
    pub scaling: LossScaling,
    /// Whether optimizers keep a master copy of parameters of 16 bits.
    pub master_weight: bool,
}

impl Amp {
    /// Level O1 with Paddle's lists: `bfloat16`, which has the range of 32 bits, without a factor, `float16` with one
    /// that follows what happens.
    ///
    /// # Errors
    /// When `dtype` is neither of the two.
    pub fn new(dtype: DType) -> Result<Amp> {
        let scaling = match dtype {
            DType::BF16 => LossScaling::NONE,
            DType::F16 => LossScaling { initial: 32768.0, dynamic: Some(Dynamic::default()) },
            other => {
                return Err(Error::kernel(format!(
                    "mixed precision is of `float16` or `bfloat16`, not `{other}`"
                )));
            }
        };
        let (level, lists) = (Level::O1, Lists::default());
        Ok(Amp { dtype, level, lists, scaling, master_weight: true })
    }

    /// Sets how far it goes.
    #[must_use]
    pub fn level(mut self, level: Level) -> Amp {
        self.level = level;
        self
    }

    /// Sets which ops take part.
    #[must_use]
    pub fn lists(mut self, lists: Lists) -> Amp {
        self.lists = lists;
        self
    }

    /// Sets the factor of the loss.
    #[must_use]
    pub fn scaling(mut self, scaling: LossScaling) -> Amp {
        self.scaling = scaling;
        self
    }

    /// What is asked for, in a line for people.
    pub fn describe(&self) -> String {
        let parameters = match self.level {
            Level::O1 => "parameters float32".to_owned(),
            Level::O2 if self.master_weight => format!("parameters {} with masters", self.dtype),
            Level::O2 => format!("parameters {}", self.dtype),
        };
        let scaling = match self.scaling.dynamic {
            Some(_) => format!("loss scaled by {} and adapted", self.scaling.initial),
            None if self.scaling.is_none() => "loss not scaled".to_owned(),
            None => format!("loss scaled by {}", self.scaling.initial),
        };
        format!("mixed precision: products in {}, {parameters}, {scaling}", self.dtype)
    }
}
