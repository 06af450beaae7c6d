//! The trainer of a heterogeneous job: runs the first stage, and has the others run by heter
//! workers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bireme_comm::{Settings, Transport};
use bireme_engine::Scope;
use bireme_engine::tensor::Tensor;
use bireme_ir::Program;

use super::message::{Request, Unit};
use super::micro::{self, Micro};
use super::next::{Next, Sent};
use super::pushes::send_sum;
use super::sections::{Sections, StageConfig};
use super::stage::{Ran, RunsOn, Stage};
use crate::worker::Worker;
use crate::{Error, Result};

/// A trainer whose program is cut into stages.
pub struct HeterTrainer {
    config: StageConfig,
    stage: Stage,
    next: Next,
    worker: Arc<Worker>,
    /// What its feeds are declared as.
    program: Program,
    steps: u64,
    stats: HeterStats,
    /// Whether the heter workers know that it has finished.
    completed: bool,
}

/// What a trainer's steps were made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeterStats {
    /// Steps.
    pub steps: u64,
    /// Micro-batches with samples.
    pub units: u64,
    /// Time in the trainer's own stage.
    pub busy: Duration,
    /// Time that it waited for heter workers with nothing else to do.
    pub waited: Duration,
}

/// A micro-batch whose answer has not been used yet.
struct Flight {
    weight: f32,
    ran: Option<Ran>,
    sent: Sent,
}

impl HeterTrainer {
    /// Connects to the workers of the second stage, which are waited for until
    /// `settings.deadline`. The parameters are those in `scope`; `worker` is the way to the
    /// parameter servers, `on` what its own stage runs on.
    ///
    /// # Errors
    /// When the program is not that of such a trainer, or a worker cannot be reached.
    pub fn connect(
        program: &Program,
        scope: &Scope,
        worker: Arc<Worker>,
        transport: &Arc<dyn Transport>,
        settings: &Settings,
        on: &RunsOn,
    ) -> Result<HeterTrainer> {
        let sections = Sections::of(program)?;
        let config = sections.config.clone();
        let stage = Stage::new(sections, scope, &worker, on)?;
        let next = Next::connect(&config, worker.config().identity(), transport, settings)?;
        Ok(HeterTrainer {
            config,
            stage,
            next,
            worker,
            program: program.clone(),
            steps: 0,
            stats: HeterStats::default(),
            completed: false,
        })
    }

    /// What its program says.
    pub fn config(&self) -> &StageConfig {
        &self.config
    }

    /// What it did.
    pub fn stats(&self) -> HeterStats {
        self.stats
    }

    /// Trains on a batch; returns what `fetches` names, of whatever stage. Values of micro-batches
    /// are joined: rows of samples one below the other, other numbers as their mean.
    ///
    /// # Errors
    /// When a feed is missing, an op fails, or a heter worker, a server or, in sync modes, another
    /// trainer is lost.
    pub fn run(&mut self, feeds: &[(&str, &Tensor)], fetches: &[&str]) -> Result<Vec<Tensor>> {
        let parts = micro::cut(&self.program, feeds, self.config.micro_batches)?;
        let (own, theirs): (Vec<&str>, Vec<&str>) =
            fetches.iter().partition(|name| self.stage.shows(name));
        let own: Vec<String> = own.into_iter().map(str::to_owned).collect();
        let theirs: Vec<String> = theirs.into_iter().map(str::to_owned).collect();
        let mut flights = Vec::with_capacity(parts.len());
        for (number, part) in parts.into_iter().enumerate() {
            flights.push(self.set_off(number as u32, part, &own, &theirs)?);
        }
        let mut seen: HashMap<String, Vec<(f32, bool, Tensor)>> = HashMap::new();
        let mut pushes = Vec::with_capacity(flights.len());
        for flight in flights {
            let weight = flight.weight;
            let units = self.land(flight, &own, &mut seen)?;
            pushes.push((weight, units));
        }
        let started = Instant::now();
        send_sum(&self.worker, pushes, &self.stage.sections.as_is)?;
        self.stage.end_step()?;
        self.stats.busy += started.elapsed();
        self.stats.steps += 1;
        self.steps += 1;
        let fetched = fetches.iter().map(|name| match seen.remove(*name) {
            Some(parts) => micro::join(parts),
            None => Err(Error::Request(format!(
                "no stage computes `{name}`: fetch variables of the program that was distributed"
            ))),
        });
        fetched.collect()
    }

    /// Runs the first stage on a micro-batch, and sends it on.
    fn set_off(
        &mut self,
        micro: u32,
        part: Micro,
        own: &[String],
        theirs: &[String],
    ) -> Result<Flight> {
        let Micro { weight, values } = part;
        let mut unit =
            Unit { trainer: self.config.rank, step: self.steps, micro, weight, ..Unit::default() };
        if values.is_empty() && weight == 0.0 {
            return Ok(Flight { weight, ran: None, sent: self.next.start(unit)? });
        }
        let started = Instant::now();
        let ran = self.stage.forward(values, own)?;
        (unit.wanted, unit.values) = (theirs.to_vec(), self.stage.sends(&ran)?);
        let sent = self.next.start(unit)?;
        self.stats.busy += started.elapsed();
        self.stats.units += 1;
        Ok(Flight { weight, ran: Some(ran), sent })
    }

    /// Takes a micro-batch's gradients back; what it pushes.
    fn land(
        &mut self,
        flight: Flight,
        own: &[String],
        seen: &mut HashMap<String, Vec<(f32, bool, Tensor)>>,
    ) -> Result<Vec<super::pushes::Push>> {
        let started = Instant::now();
        let answer = flight.sent.wait()?;
        self.stats.waited += started.elapsed();
        let Some(mut ran) = flight.ran else { return Ok(Vec::new()) };
        let started = Instant::now();
        self.stage.backward(&mut ran, answer.values, own)?;
        let pushes = self.stage.take_pushes();
        let shown = self.stage.answer(&mut ran, own)?;
        for (name, by_row, tensor) in answer.seen.into_iter().chain(shown.seen) {
            seen.entry(name).or_default().push((flight.weight, by_row, tensor));
        }
        self.stats.busy += started.elapsed();
        Ok(pushes)
    }

    /// Tells the heter workers that this trainer has finished; before its servers, whose last
    /// barrier those workers may still wait at. A second call does nothing.
    ///
    /// # Errors
    /// When one is lost.
    pub fn complete(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.completed, true) {
            return Ok(());
        }
        let trainer = self.config.rank;
        self.next.tell_all("to hear that it has finished", &Request::Complete { trainer })?;
        self.next.goodbye();
        Ok(())
    }

    /// Leaves with an error, so that those who wait for this trainer hear of it at once.
    pub fn quit(&mut self, problem: &str) {
        if std::mem::replace(&mut self.completed, true) {
            return;
        }
        let request = Request::Quit { problem };
        if self.next.tell_all("to hear of its end", &request).is_ok() {
            self.next.goodbye();
        }
    }
}

impl Drop for HeterTrainer {
    fn drop(&mut self) {
        self.quit("it stopped before it had completed");
    }
}
