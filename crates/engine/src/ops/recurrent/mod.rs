//! Recurrent networks: whole ones over a batch of sequences, padded to one length (`rnn`) or ragged
//! (`gru`, `lstm` of 1.x programs), and single steps of 1.x programs.

mod activation;
mod backward;
mod cell;
mod forward;
mod gru;
mod gru_unit;
mod lstm;
mod lstm_unit;
mod packing;
mod rnn;
mod rnn_grad;
mod sizes;

#[cfg(test)]
mod tests;

use crate::op::OpDef;

/// The ops of this family.
pub(super) const DEFS: &[OpDef] =
    &[rnn::DEF, rnn_grad::DEF, gru::DEF, gru_unit::DEF, lstm::DEF, lstm_unit::DEF];
