//! Metrics: how good predictions are, over a batch or over all batches so far.

use crate::op::OpDef;

mod accuracy;
mod auc;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[accuracy::DEF, auc::DEF];
