//! Arithmetic on whole tensors: scaling, means, sums.

use crate::op::OpDef;

mod mean;
mod scale;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[mean::DEF, mean::GRAD, scale::DEF];
