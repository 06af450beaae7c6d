//! Recurrent networks: single steps, and whole networks over batches of sequences.

mod gru_unit;
mod lstm_unit;
mod network;
mod rnn;
mod rnn_grad;

use super::Lower;

/// The ops of this family.
pub(super) const OPS: &[(&str, Lower)] = &[
    ("gru_unit", gru_unit::forward),
    ("gru_unit_grad", gru_unit::backward),
    ("lstm_unit", lstm_unit::forward),
    ("lstm_unit_grad", lstm_unit::backward),
    ("rnn", rnn::forward),
    ("rnn_grad", rnn_grad::backward),
];
