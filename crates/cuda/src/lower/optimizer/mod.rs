//! Optimizers: steps of whole tensors, many of them in one launch, and of the rows that a sparse gradient
//! names. The rules themselves are in `kernels/rules.cuh`.

mod dense;
mod layerwise;
mod powers;
mod rows;
mod rules;
mod target;

use super::Lower;

#[expect(
    unused_imports,
    reason = "for a plan that updates all parameters of a program at once"
)]
pub(crate) use {
    dense::update_many,
    powers::{Power, raise_many},
    target::{Rule, Target},
};

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
