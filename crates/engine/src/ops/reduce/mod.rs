//! Reductions: sums, means, extremes and products along some axes.

use crate::op::OpDef;

mod axes;
mod logic;
mod logsumexp;
mod max_min;
mod prod;
mod sum;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    sum::SUM,
    sum::MEAN,
    max_min::MAX,
    max_min::MIN,
    prod::DEF,
    logic::ANY,
    logic::ALL,
    logsumexp::DEF,
];
