//! Products of matrices and vectors: `matmul` and its relatives, and `fc`.

pub(super) mod columns;
mod dot;
mod einsum;
mod fc;
mod logit;
mod matmul;
pub(super) mod multiply;
mod slopes;
mod small;
mod stacks;

use super::Lower;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("bmm", matmul::forward),
    ("bmm_grad", matmul::backward),
    ("cos_sim", dot::cos_sim),
    ("cos_sim_grad", dot::cos_sim_grad),
    ("dot", dot::dot),
    ("dot_grad", dot::dot_grad),
    ("einsum", einsum::forward),
    ("einsum_grad", einsum::backward),
    ("fused_fc", fc::forward),
    ("fused_fc_grad", fc::backward),
    ("fused_logit", logit::forward),
    ("fused_logit_grad", logit::backward),
    ("matmul", matmul::forward),
    ("matmul_grad", matmul::backward),
    ("matmul_v2", matmul::forward),
    ("matmul_v2_grad", matmul::backward),
    ("mul", matmul::mul),
    ("mul_grad", matmul::mul_grad),
];
