//! Matrix products, inner products and Einstein sums.

use crate::op::OpDef;

mod batch_fc;
mod bmm;
mod cos_sim;
mod dot;
pub mod einsum;
mod matmul_v2;
mod mul;
mod product;
mod rank_attention;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    batch_fc::DEF,
    bmm::DEF,
    dot::DEF,
    einsum::DEF,
    einsum::GRAD,
    matmul_v2::V1,
    matmul_v2::V2,
    mul::DEF,
    cos_sim::DEF,
    rank_attention::DEF,
];
