//! Matrix products, inner products and norms.

use crate::op::OpDef;

mod bmm;
mod dot;
mod matmul;
mod mul;
mod p_norm;
mod product;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    bmm::DEF,
    bmm::GRAD,
    dot::DEF,
    dot::GRAD,
    matmul::V1,
    matmul::V1_GRAD,
    matmul::V2,
    matmul::V2_GRAD,
    mul::DEF,
    mul::GRAD,
    p_norm::DEF,
    p_norm::GRAD,
];
