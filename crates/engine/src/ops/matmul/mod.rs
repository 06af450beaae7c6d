//! Matrix products.

use crate::op::OpDef;

mod mul;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[mul::DEF, mul::GRAD];
