//! Normalisation: by channels over the batch, by rows, and by statistics of all data seen so far.

mod batch_norm;
mod data_norm;
mod layer_norm;

use super::Lower;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("batch_norm", batch_norm::forward),
    ("batch_norm_grad", batch_norm::backward),
    ("data_norm", data_norm::forward),
    ("data_norm_grad", data_norm::backward),
    ("layer_norm", layer_norm::forward),
    ("layer_norm_grad", layer_norm::backward),
];
