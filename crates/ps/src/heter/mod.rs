//! Heterogeneous jobs: the program of a job cut into stages, each run by processes of its own.
//!
//! [`HeterTrainer`] runs the first stage: it cuts a batch into micro-batches, sends what the next
//! stage reads of each, and takes gradients back while later micro-batches are on their way.
//! [`HeterWorker`] serves one of the other stages. Both push the gradients that they compute, summed
//! over the micro-batches of a step (`pushes`), by a [`crate::worker::Worker`] of their own.
//!
//! A micro-batch of one trainer's step is a *unit*. It goes through the stages by nested requests
//! (`message`): a worker answers when all stages after its own have, so a trainer needs to know the
//! second stage only. Which worker of a stage has which unit depends on trainer and number alone,
//! so every worker knows which units a step still lacks (`ledger`).

mod ledger;
mod message;
mod micro;
mod next;
mod pushes;
mod sections;
mod service;
mod stage;
#[cfg(test)]
mod tests;
mod trainer;
mod worker;

#[doc(hidden)]
pub use message::read_twice;
pub use sections::{StageConfig, is_heter_trainer, is_heter_worker};
pub use stage::RunsOn;
pub use trainer::{HeterStats, HeterTrainer};
pub use worker::HeterWorker;

/// The worker, of `workers` in a stage, that has micro-batch `micro` of `trainer`, where every
/// trainer's step has `micros`: round robin over all units of a step.
fn assigned(trainer: u32, micro: u32, micros: u32, workers: usize) -> usize {
    (trainer as usize * micros as usize + micro as usize) % workers.max(1)
}
