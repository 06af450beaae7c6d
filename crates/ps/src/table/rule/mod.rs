//! How a row changes with its gradient: the engine's optimizers. The sparse rules of Paddle's
//! accessors are in the engine.

mod optimizer;
mod powers;

pub use optimizer::OptimizerRule;

pub(super) use optimizer::{RowRule, StateColumn};
pub(super) use powers::Powers;
