//! Recurrent networks: whole ones over a batch of sequences, and single steps of 1.x programs.

mod activation;
mod backward;
mod cell;
mod forward;
mod gru_unit;
mod lstm_unit;
mod rnn;
mod rnn_grad;
mod sizes;

#[cfg(test)]
mod tests;

use crate::op::OpDef;

/// The ops of this family.
pub(super) const DEFS: &[OpDef] = &[rnn::DEF, rnn_grad::DEF, gru_unit::DEF, lstm_unit::DEF];
