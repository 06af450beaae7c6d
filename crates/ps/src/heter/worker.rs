//! A heter worker: serves one stage of a program until the trainers have finished.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bireme_comm::{Server, Settings, Transport};
use bireme_engine::Scope;
use bireme_engine::remote::Remote;
use bireme_ir::Program;

use super::next::Next;
use super::sections::{Sections, StageConfig};
use super::service::Service;
use super::stage::{RunsOn, Stage};
use crate::server::deadlines_for_first;
use crate::worker::Worker;
use crate::{Error, Result};

/// How often a worker looks at the clock and asks whether it shall stop.
const TICK: Duration = Duration::from_millis(50);
/// How long a worker that is done waits for the stage before to say goodbye.
const FAREWELL: Duration = Duration::from_secs(2);

/// A heter worker that listens.
pub struct HeterWorker {
    service: Arc<Service>,
    server: Server,
    worker: Arc<Worker>,
    settings: Settings,
    /// Whether a launcher or a scheduler starts the trainers.
    is_managed: bool,
}

impl HeterWorker {
    /// Starts to serve the stage of `program`, whose parameters its startup program left in
    /// `scope`; `worker` is its way to the parameter servers, `on` what the stage runs on. Waits for
    /// the workers of the next stage, if there is one.
    ///
    /// # Errors
    /// When the program is no heter worker's, the endpoint is taken, or the next stage cannot be
    /// reached.
    pub fn start(
        program: &Program,
        scope: &Scope,
        worker: Arc<Worker>,
        transport: Arc<dyn Transport>,
        settings: Settings,
        on: &RunsOn,
    ) -> Result<HeterWorker> {
        let sections = Sections::of(program)?;
        let config = sections.config.clone();
        if config.endpoint.is_empty() {
            return Err(Error::Config("the program does not say where to listen".to_owned()));
        }
        let identity = worker.config().identity();
        let stage = Stage::new(sections, scope, &worker, on)?;
        let service =
            Arc::new(Service::new(config.clone(), stage, Arc::clone(&worker), settings.deadline));
        let handler = Arc::clone(&service);
        // Before it listens: a unit must find the next stage.
        if !config.next.is_empty() {
            let next = Next::connect(&config, identity, &transport, &settings)?;
            service.next.get_or_init(|| next);
        }
        let server =
            Server::start(transport, &config.endpoint, identity, settings.clone(), handler)?;
        Ok(HeterWorker { service, server, worker, settings, is_managed: false })
    }

    /// Says whether a launcher or a scheduler starts the processes of the job: then they are waited
    /// for longer.
    pub fn managed(self, is_managed: bool) -> HeterWorker {
        HeterWorker { is_managed, ..self }
    }

    /// Where it listens, as `ip:port`.
    pub fn endpoint(&self) -> &str {
        self.server.endpoint()
    }

    /// What its program says.
    pub fn config(&self) -> &StageConfig {
        &self.service.config
    }

    /// Serves until all trainers have finished. `interrupt` is asked many times a second; when it
    /// says yes, the worker stops.
    ///
    /// # Errors
    /// When a trainer, a server or the next stage is lost, when a trainer never comes, or
    /// [`Error::Interrupted`].
    pub fn run(&self, interrupt: &dyn Fn() -> bool) -> Result<()> {
        let ended = self.serve(interrupt);
        match &ended {
            Ok(()) => {
                self.say_goodbye();
                if let Some(next) = self.service.next.get() {
                    next.goodbye();
                }
            }
            Err(error) => {
                self.service.fail(&error.to_string());
                self.worker.quit(&error.to_string());
                if !matches!(error, Error::Interrupted) {
                    self.let_hear();
                }
            }
        }
        match &ended {
            // Who computes all the while hears it when it next asks.
            Err(error) => self.server.shutdown_because(&error.to_string()),
            Ok(()) => self.server.shutdown(),
        }
        ended
    }

    fn serve(&self, interrupt: &dyn Fn() -> bool) -> Result<()> {
        let deadline = self.settings.deadline;
        loop {
            if interrupt() {
                return Err(Error::Interrupted);
            }
            let state = self.service.state();
            if let Some(problem) = &state.failure {
                return Err(Error::Missing(problem.clone()));
            }
            if state.is_finished() {
                return Ok(());
            }
            let expected = self.expected();
            let waited = state.changed.elapsed();
            let times =
                if state.here.is_empty() { deadlines_for_first(self.is_managed) } else { 1 };
            let patience = times * deadline;
            if state.missing(expected) && waited > patience {
                return Err(Error::Missing(format!(
                    "only {} of {expected} processes of the stage before came to {} within {:.1} s: \
                     were all trainers started, with the right endpoints?",
                    state.here.len(),
                    self.worker.whoami(),
                    waited.as_secs_f64()
                )));
            }
            let waited = self.service.news.wait_timeout(state, TICK);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Processes of the stage before.
    fn expected(&self) -> usize {
        let config = &self.service.config;
        config.counts.get(config.stage as usize - 2).map_or(1, |count| *count as usize)
    }

    /// Lets those who are here ask once more, so that they hear why the job cannot go on.
    fn let_hear(&self) {
        let until = Instant::now() + self.settings.heartbeat_timeout;
        let mut state = self.service.state();
        while !state.have_heard(&self.server.peers()) && Instant::now() < until {
            let waited = self.service.news.wait_timeout(state, TICK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets the stage before close its connections first.
    fn say_goodbye(&self) {
        let until = Instant::now() + FAREWELL.min(self.settings.heartbeat_timeout);
        while !self.server.peers().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
