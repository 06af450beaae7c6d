//! Optimizers: steps of whole tensors, many of them in one launch, and of the rows that a sparse gradient
//! names. The rules themselves are in `kernels/rules.cuh`.

mod dense;
mod layerwise;
mod powers;
mod rows;
mod rules;
mod target;

use super::Lower;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("adadelta", rules::adadelta),
    ("adagrad", rules::adagrad),
    ("adam", rules::adam),
    ("adamax", rules::adamax),
    ("adamw", rules::adamw),
    ("decayed_adagrad", rules::decayed_adagrad),
    ("ftrl", rules::ftrl),
    ("lamb", layerwise::lamb),
    ("lars_momentum", layerwise::lars),
    ("momentum", rules::momentum),
    ("rmsprop", rules::rmsprop),
    ("sgd", rules::sgd),
];
