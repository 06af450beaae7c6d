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
    sum::SUM_GRAD,
    sum::MEAN,
    sum::MEAN_GRAD,
    max_min::MAX,
    max_min::MAX_GRAD,
    max_min::MIN,
    max_min::MIN_GRAD,
    prod::DEF,
    prod::GRAD,
    logic::ANY,
    logic::ALL,
    logsumexp::DEF,
    logsumexp::GRAD,
];
