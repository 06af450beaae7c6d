//! Sequences: ops that follow the LoD of ragged batches, and the two that click models put on
//! top of them (`cvm`, `data_norm`).

use crate::op::OpDef;

mod cvm;
mod data_norm;
mod offsets;
mod sequence_expand;
mod sequence_mask;
mod sequence_pool;
mod sequence_softmax;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    cvm::DEF,
    data_norm::DEF,
    data_norm::GRAD,
    sequence_expand::DEF,
    sequence_pool::DEF,
    sequence_pool::GRAD,
    sequence_softmax::DEF,
    sequence_mask::DEF,
];
