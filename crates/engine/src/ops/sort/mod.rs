//! Ops that compare elements with one another: order, extremes, duplicates.

use crate::op::OpDef;

mod arg_extreme;
mod argsort;
mod lanes;
mod top_k;
mod unique;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] =
    &[top_k::DEF, top_k::OLD, argsort::DEF, arg_extreme::MAX, arg_extreme::MIN, unique::DEF];
