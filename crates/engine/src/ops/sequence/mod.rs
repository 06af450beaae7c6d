//! Sequences: ops that follow the LoD of ragged batches, and those that click models put on
//! top of them (`cvm`, `fused_seqpool_cvm`, `data_norm`).

use crate::op::OpDef;

mod cvm;
mod data_norm;
mod filter_by_instag;
mod fused_seqpool_cvm;
mod lod_reset;
mod offsets;
mod sequence_concat;
mod sequence_conv;
mod sequence_enumerate;
mod sequence_erase;
mod sequence_expand;
mod sequence_expand_as;
mod sequence_mask;
mod sequence_pad;
mod sequence_pool;
mod sequence_reshape;
mod sequence_reverse;
mod sequence_scatter;
mod sequence_slice;
mod sequence_softmax;
mod sequence_unpad;

pub(super) use offsets::only_level;

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
    filter_by_instag::DEF,
    fused_seqpool_cvm::DEF,
    lod_reset::DEF,
    sequence_concat::DEF,
    sequence_conv::DEF,
    sequence_enumerate::DEF,
    sequence_erase::DEF,
    sequence_expand_as::DEF,
    sequence_pad::DEF,
    sequence_reshape::DEF,
    sequence_reverse::DEF,
    sequence_scatter::DEF,
    sequence_slice::DEF,
    sequence_unpad::DEF,
];
