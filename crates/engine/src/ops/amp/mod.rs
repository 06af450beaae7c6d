//! Loss scaling: what keeps small gradients of 16-bit floats from vanishing.

use crate::op::OpDef;

mod check_finite_and_unscale;
mod update_loss_scaling;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[check_finite_and_unscale::DEF, update_loss_scaling::DEF];
