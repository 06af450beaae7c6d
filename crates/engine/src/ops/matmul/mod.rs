//! Matrix products, inner products, Einstein sums and norms.

use crate::op::OpDef;

mod bmm;
mod cos_sim;
mod dot;
mod einsum;
mod matmul_v2;
mod mul;
mod p_norm;
mod product;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    bmm::DEF,
    bmm::GRAD,
    dot::DEF,
    dot::GRAD,
    einsum::DEF,
    einsum::GRAD,
    matmul_v2::V1,
    matmul_v2::V1_GRAD,
    matmul_v2::V2,
    matmul_v2::V2_GRAD,
    mul::DEF,
    mul::GRAD,
    p_norm::DEF,
    p_norm::GRAD,
    cos_sim::DEF,
    cos_sim::GRAD,
];
