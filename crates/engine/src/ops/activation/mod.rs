//! Activations: functions of one element.

use crate::op::OpDef;

mod relu;
mod unary;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[relu::DEF, relu::GRAD];
