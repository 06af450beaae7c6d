//! Normalisation and norms: batch and layer norm, norms along an axis and of whole tensors.

use crate::op::OpDef;

mod batch_norm;
mod channels;
mod clip_by_norm;
mod l2_norm;
mod layer_norm;
pub(super) mod merged_rows;
mod p_norm;
mod squared_l2_norm;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    batch_norm::DEF,
    clip_by_norm::DEF,
    l2_norm::DEF,
    layer_norm::DEF,
    p_norm::DEF,
    squared_l2_norm::DEF,
];
