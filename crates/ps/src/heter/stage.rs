//! Runs the sections of one stage on a scope. One unit at a time: the executor's own threads share
//! a unit's rows, so units beside one another would only wait for the same cores.

use std::sync::Arc;

use bireme_engine::device::Device;
use bireme_engine::graph::ProgramHandle;
use bireme_engine::remote::Remote;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Scope};

use super::message::{Answer, Values};
use super::pushes::{Catch, Push};
use super::sections::{Section, Sections};
use crate::worker::Worker;
use crate::{Error, Result};

/// What the ops of a stage run on.
#[derive(Clone)]
pub struct RunsOn {
    /// Threads that share the rows of a micro-batch, where the host runs it.
    pub threads: usize,
    /// The card that runs what it has kernels for, if there is one.
    pub card: Option<Arc<dyn Device>>,
}

impl RunsOn {
    /// The host alone, with so many threads.
    pub fn host(threads: usize) -> RunsOn {
        RunsOn { threads, card: None }
    }

    fn executor(&self) -> Result<Executor> {
        let executor = match &self.card {
            Some(card) => Executor::on(Arc::clone(card)),
            None => Executor::new(Place::Cpu)?,
        };
        Ok(executor.threads(self.threads))
    }
}

/// One process's part of a program.
pub(super) struct Stage {
    pub(super) sections: Sections,
    /// Runs what every unit runs; what it would push is caught.
    units: Executor,
    catch: Arc<Catch>,
    /// Runs what ends a step.
    ends: Executor,
    scope: Scope,
}

/// What is known of a unit after its forward section.
pub(super) struct Ran {
    /// What came in, and what was computed of what somebody needs.
    pub(super) values: Values,
}

impl Stage {
    pub(super) fn new(
        sections: Sections,
        scope: &Scope,
        worker: &Arc<Worker>,
        on: &RunsOn,
    ) -> Result<Stage> {
        let catch = Arc::new(Catch::new(Arc::clone(worker)));
        let units = on.executor()?.with_scope(scope.clone());
        let units = units.remote(Arc::clone(&catch) as Arc<dyn Remote>);
        // Barriers and pulls: what they bring goes to the card when a unit first needs it.
        let ends = Executor::new(Place::Cpu)?.with_scope(scope.clone());
        let ends = ends.remote(Arc::clone(worker) as Arc<dyn Remote>);
        Ok(Stage { sections, units, catch, ends, scope: scope.clone() })
    }

    /// Runs what comes before the next stage, or everything in the last one.
    ///
    /// # Errors
    /// When something that it reads is not among `given`, or an op fails.
    pub(super) fn forward(&mut self, given: Values, wanted: &[String]) -> Result<Ran> {
        let sections = &self.sections;
        let needed = sections.sends.iter().chain(&sections.saved).chain(&sections.answers);
        let fetches = fetches(&sections.forward, needed.chain(wanted));
        let made = run(&mut self.units, &self.scope, &sections.forward, &given, &fetches)?;
        let mut values = given;
        values.extend(fetches.into_iter().zip(made));
        Ok(Ran { values })
    }

    /// What the next stage is sent of a unit.
    pub(super) fn sends(&self, ran: &Ran) -> Result<Values> {
        let sends = self.sections.sends.iter();
        sends.map(|name| Ok((name.clone(), find(&ran.values, name)?.clone()))).collect()
    }

    /// Runs what comes after the next stage's answer; adds what it made to `ran`.
    ///
    /// # Errors
    /// As [`Stage::forward`].
    pub(super) fn backward(
        &mut self,
        ran: &mut Ran,
        answer: Values,
        wanted: &[String],
    ) -> Result<()> {
        ran.values.extend(answer);
        let Some(backward) = &self.sections.backward else { return Ok(()) };
        let fetches = fetches(backward, self.sections.answers.iter().chain(wanted));
        let made = run(&mut self.units, &self.scope, backward, &ran.values, &fetches)?;
        ran.values.extend(fetches.into_iter().zip(made));
        Ok(())
    }

    /// What the stage before wants of a unit, and what the trainer wants to see and is here.
    pub(super) fn answer(&self, ran: &mut Ran, wanted: &[String]) -> Result<Answer> {
        let mut answer = Answer::default();
        for name in &self.sections.answers {
            answer.values.insert(name.clone(), find(&ran.values, name)?.clone());
        }
        for name in wanted {
            if let Some(tensor) = self.look(&ran.values, name)? {
                let by_row = self.sections.is_by_row(name);
                answer.seen.push((name.clone(), by_row, tensor));
            }
        }
        Ok(answer)
    }

    /// Runs what ends a step.
    ///
    /// # Errors
    /// When a server or another trainer is lost.
    pub(super) fn end_step(&mut self) -> Result<()> {
        if let Some(tail) = &self.sections.tail {
            run(&mut self.ends, &self.scope, tail, &Values::new(), &[])?;
        }
        Ok(())
    }

    /// What the unit that ran last would have pushed.
    pub(super) fn take_pushes(&self) -> Vec<Push> {
        self.catch.take()
    }

    /// The value of a variable, if this stage has it: of the unit, or one that outlives units.
    pub(super) fn look(&self, values: &Values, name: &str) -> Result<Option<Tensor>> {
        if let Some(tensor) = values.get(name) {
            return Ok(Some(tensor.clone()));
        }
        let is_kept = self
            .sections
            .forward
            .program
            .read(|program| program.global().var(name).is_some_and(|var| var.persistable));
        match is_kept {
            true => Ok(Some(self.scope.get(name)?.clone())),
            false => Ok(None),
        }
    }

    /// Whether a variable is this stage's to show.
    pub(super) fn shows(&self, name: &str) -> bool {
        let sections = &self.sections;
        let backward = sections.backward.as_ref();
        sections.forward.program.read(|program| {
            let var = program.global().var(name);
            var.is_some_and(|var| {
                var.persistable
                    || sections.forward.reads.contains(name)
                    || sections.forward.writes.contains(name)
                    || backward.is_some_and(|section| section.writes.contains(name))
            })
        })
    }
}

/// What of `names` a section computes, each once.
fn fetches<'a>(section: &Section, names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut fetches: Vec<String> = Vec::new();
    for name in names.filter(|name| section.writes.contains(*name)) {
        if !fetches.contains(name) {
            fetches.push(name.clone());
        }
    }
    fetches
}

fn run(
    executor: &mut Executor,
    scope: &Scope,
    section: &Section,
    given: &Values,
    fetches: &[String],
) -> Result<Vec<Tensor>> {
    let mut feeds: Vec<&str> = Vec::new();
    let mut tensors: Vec<&Tensor> = Vec::new();
    for name in &section.reads {
        tensors.push(find(given, name)?);
        feeds.push(name);
    }
    let program: &ProgramHandle = &section.program;
    let fetches: Vec<&str> = fetches.iter().map(String::as_str).collect();
    let step = executor.step(program, scope, &feeds, &fetches)?;
    step.run(&tensors)?;
    Ok((0..fetches.len()).map(|at| step.take_fetched(at)).collect())
}

fn find<'a>(values: &'a Values, name: &str) -> Result<&'a Tensor> {
    values.get(name).ok_or_else(|| {
        Error::Request(format!(
            "`{name}` has not come: is it fed, and do all stages run programs of one `transpile`?"
        ))
    })
}
