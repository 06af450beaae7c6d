//! Heterogeneous jobs: a program whose ops are marked with devices (`op_device`) is cut into stages.
//! Trainers run the first, which reads data and looks rows up; heter workers run the others.
//!
//! The classic trainer's program, with its pushes and pulls, is written first and then cut: every
//! stage has the ops that are its own, so each pushes the gradients that it computes and pulls the
//! parameters that it reads. What one stage computes and a later one reads travels forward with
//! `send_and_recv`, gradients come back as its answer.
//!
//! The program of every stage is one block in the same order: what arrives
//! (`heter_listen_and_serv`, not in the first stage), the forward ops, the question to the next stage
//! (`send_and_recv`, not in the last), the backward ops with their `send`s, then barriers and pulls.

mod cut;
mod stages;

pub(crate) use cut::build;
pub(crate) use stages::Stages;

use std::ops::Range;

use crate::{Error, Result};

/// The heter workers of a job, and how its batches are cut for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heter {
    /// Endpoints of the workers of each stage after the first.
    pub stages: Vec<Vec<String>>,
    /// Into how many micro-batches a trainer cuts a batch, so that stages work at the same time.
    pub micro_batches: usize,
}

/// A process that trains in a heterogeneous job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its stage; 0 is that of the trainers.
    pub stage: usize,
    /// Its number within the stage.
    pub index: usize,
}

impl Heter {
    /// Checks what the programs rely on.
    pub(crate) fn check(&self, trainers: usize, is_sync: bool) -> Result<()> {
        let refuse = |problem: String| Err(Error::Config(problem));
        if self.stages.is_empty() || self.stages.iter().any(Vec::is_empty) {
            return refuse(
                "every stage after the first needs at least one heter worker".to_owned(),
            );
        }
        if self.micro_batches == 0 || i32::try_from(trainers * self.micro_batches).is_err() {
            let count = self.micro_batches;
            return refuse(format!("a batch cannot be cut into {count} micro-batches"));
        }
        let all: Vec<&String> = self.stages.iter().flatten().collect();
        if let Some((_, twice)) = all.iter().enumerate().find(|(i, e)| all[..*i].contains(e)) {
            return refuse(format!("the heter worker `{twice}` is listed twice"));
        }
        let units = trainers * self.micro_batches;
        match self.stages.iter().find(|stage| stage.len() > units) {
            Some(stage) if is_sync => refuse(format!(
                "a stage has {} heter workers, but a sync step only {units} micro-batches \
                 ({trainers} trainers, {} each): raise `accumulate_steps`, or start fewer heter \
                 workers",
                stage.len(),
                self.micro_batches
            )),
            _ => Ok(()),
        }
    }

    /// The rank of a process among all that train: trainers first, then stage by stage.
    pub(crate) fn rank(&self, place: Place, trainers: usize) -> usize {
        match place.stage {
            0 => place.index,
            stage => self.ranks(stage, trainers).start + place.index,
        }
    }

    /// The ranks of a stage.
    pub(crate) fn ranks(&self, stage: usize, trainers: usize) -> Range<usize> {
        if stage == 0 {
            return 0..trainers;
        }
        let before: usize = self.stages[..stage - 1].iter().map(Vec::len).sum();
        let start = trainers + before;
        start..start + self.stages[stage - 1].len()
    }

    /// Processes of every stage, the trainers' first.
    pub(crate) fn counts(&self, trainers: usize) -> Vec<i32> {
        let workers = self.stages.iter().map(|stage| stage.len() as i32);
        std::iter::once(trainers as i32).chain(workers).collect()
    }

    /// Heter workers of all stages.
    pub(crate) fn workers(&self) -> usize {
        self.stages.iter().map(Vec::len).sum()
    }
}
