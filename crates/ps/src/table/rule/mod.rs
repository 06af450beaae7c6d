//! How a row changes with its gradient: the engine's optimizers, and the sparse rules of Paddle's
//! accessors.

mod optimizer;
mod powers;
mod sparse;

pub use optimizer::OptimizerRule;
pub use sparse::{SparseRule, SparseRuleKind};

pub(super) use optimizer::{RowRule, StateColumn};
pub(super) use powers::Powers;
