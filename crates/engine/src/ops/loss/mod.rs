//! Losses: how far a prediction is from its label, sample by sample.

use crate::op::OpDef;

mod bce_loss;
mod cross_entropy;
mod cross_entropy2;
mod hierarchical_sigmoid;
mod huber_loss;
mod kldiv_loss;
mod label_smooth;
mod labels;
mod log_loss;
mod nce;
mod pairwise;
mod sample_logits;
mod sampler;
mod sigmoid_cross_entropy_with_logits;
mod smooth_l1_loss;
mod softmax_with_cross_entropy;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    bce_loss::DEF,
    cross_entropy::DEF,
    cross_entropy2::DEF,
    cross_entropy2::GRAD,
    hierarchical_sigmoid::DEF,
    huber_loss::DEF,
    kldiv_loss::DEF,
    log_loss::DEF,
    sigmoid_cross_entropy_with_logits::DEF,
    softmax_with_cross_entropy::DEF,
    softmax_with_cross_entropy::FUSED,
    smooth_l1_loss::DEF,
    label_smooth::DEF,
    nce::DEF,
    sample_logits::DEF,
];
