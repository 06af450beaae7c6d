//! Records and parameters on their way back to the servers.
//!
//! What is given back when a pass ends goes by a thread of its own, from a copy, while the next pass is
//! begun and trained. Nobody else changes these records on the servers, and nobody asks for them before
//! [`Giving::finish`]: their keys have rows here.

use std::sync::Arc;
use std::thread::JoinHandle;

use bireme_comm::Interrupt;
use bireme_engine::remote::Piece;
use bireme_engine::tensor::Tensor;
use bireme_ps::worker::Worker;

use super::plan::{PassPlan, PassTable};
use crate::environment::variables;
use crate::{Error, Result};

/// What was trained, as it is after a step.
pub(super) struct Parcel {
    /// Keys and records, with the number of their table.
    pub(super) records: Vec<(usize, Vec<u64>, Vec<f32>)>,
    /// Values of all parameters that are no tables, unless another trainer gives them.
    pub(super) dense: Option<Vec<Tensor>>,
    pub(super) step: u64,
}

/// What is under way, if something is.
#[derive(Default)]
pub(super) struct Giving {
    thread: Option<JoinHandle<Result<()>>>,
}

impl Giving {
    /// Gives servers a parcel while others go on.
    pub(super) fn start(
        &mut self,
        parcel: Parcel,
        plan: &Arc<PassPlan>,
        worker: &Arc<Worker>,
    ) -> Result<()> {
        self.finish()?;
        let (plan, worker) = (Arc::clone(plan), Arc::clone(worker));
        let give = move || {
            Interrupt::ignore_on_this_thread();
            for (table, keys, records) in &parcel.records {
                push(&plan.tables[*table], &worker, keys, records, parcel.step)?;
            }
            match &parcel.dense {
                Some(values) => set_dense(&plan.dense, &worker, values),
                None => Ok(()),
            }
        };
        let thread = std::thread::Builder::new().name("give back".to_owned()).spawn(give);
        self.thread = Some(thread.map_err(|error| {
            Error::Config(format!("cannot start the thread that gives records back: {error}"))
        })?);
        Ok(())
    }

    /// Whether servers have not got all of it yet.
    pub(super) fn is_under_way(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Waits until the servers have all that was given.
    pub(super) fn finish(&mut self) -> Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(given)) => given,
            Some(Err(_)) => {
                Err(Error::Config("the thread that gives records back panicked".to_owned()))
            }
        }
    }
}

/// Gives servers some records.
pub(super) fn push(
    table: &PassTable,
    worker: &Worker,
    keys: &[u64],
    records: &[f32],
    step: u64,
) -> Result<()> {
    if worker.config().communicator.check_finite {
        check_finite(table, keys, records, step)?;
    }
    Ok(worker.push_records(&table.reference, table.record_width(), keys, records, step)?)
}

/// Gives servers the values of parameters.
pub(super) fn set_dense(pieces: &[Piece], worker: &Worker, values: &[Tensor]) -> Result<()> {
    Ok(worker.set(pieces, &values.iter().collect::<Vec<&Tensor>>())?)
}

/// Refuses records that no training could go on from.
fn check_finite(table: &PassTable, keys: &[u64], records: &[f32], step: u64) -> Result<()> {
    match records.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::Config(format!(
            "the row of key {} of table `{}` has NaN or infinity after step {step}, and is not given to \
             the servers: begin again from the last checkpoint, with a lower learning rate or clean data \
             (`--check-finite` names the op that makes the first; `{}=0` pushes it all the same)",
            keys[at / table.record_width()],
            table.reference.name,
            variables::CHECK_FINITE.name
        ))),
    }
}
