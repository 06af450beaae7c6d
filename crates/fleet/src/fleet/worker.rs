//! The trainer's part of a job.

use std::sync::Arc;
use std::time::Duration;

use bireme_comm::Interrupt;
use bireme_engine::{Executor, Scope};
use bireme_ir::Program;
use bireme_ps::worker::{Worker, WorkerConfig};

use super::Fleet;
use crate::environment::CommunicatorFlags;
use crate::settings::{knobs, network, settings};
use crate::{Environment, Error, Result};

/// A trainer's way to its servers.
pub(super) struct Connected {
    worker: Arc<Worker>,
    /// Where its variables are: a geo trainer's own copies of parameters among them.
    scope: Scope,
}

impl Fleet {
    /// Connects this trainer to the servers and runs its startup program, which fetches what they
    /// have; returns the executor, connected. Waits for servers that are not there yet.
    ///
    /// # Errors
    /// When this is no trainer, a server cannot be reached in time, or the startup program fails.
    pub fn init_worker(&mut self, mut executor: Executor) -> Result<Executor> {
        let remote = self.connect(executor.scope())?;
        executor.connect(remote.map(|worker| worker as _));
        let rings = self.join()?;
        if let Some(rings) = &rings {
            rings.agree(executor.device(), self.road)?;
        }
        executor.join(rings.map(|rings| rings as _));
        self.start(&mut executor)?;
        Ok(executor)
    }

    /// Runs the startup program, and takes over what the servers have: a trainer begins so, and goes
    /// on so after they have loaded a checkpoint.
    ///
    /// # Errors
    /// When the startup program fails, or a server is lost.
    pub fn start(&mut self, executor: &mut Executor) -> Result<()> {
        executor.run(self.startup_program()?, &[], &[])?;
        self.start_passes(executor)
    }

    /// As [`Fleet::start`], for a trainer that has begun.
    ///
    /// # Errors
    /// As [`Fleet::start`].
    pub fn restart(&self, executor: &mut Executor) -> Result<()> {
        executor.run(self.startup_program()?, &[], &[])?;
        self.refresh_passes()
    }

    /// Connects this trainer, whose variables are in `scope`, to the servers, if it has any; the
    /// startup program is the caller's to run.
    ///
    /// # Errors
    /// As [`Fleet::init_worker`].
    pub fn connect(&mut self, scope: &Scope) -> Result<Option<Arc<Worker>>> {
        self.need_member("init_worker")?;
        let job = self.job()?;
        if job.transpiled.is_none() {
            return Ok(None);
        }
        if let Some(connected) = &self.worker {
            return Ok(Some(Arc::clone(&connected.worker)));
        }
        self.serve_embedded()?;
        let transport = self.way_to_servers()?;
        let job = self.job()?;
        let Some(transpiled) = &job.transpiled else { return Ok(None) };
        let strategy = &job.strategy;
        self.reporter.mode(strategy.mode);
        let config = WorkerConfig {
            trainer: self.role.rank(),
            trainers: self.role.worker_num() + self.role.heter_worker_num(),
            heter_workers: self.role.heter_worker_num(),
            endpoints: self.role.server_endpoints().to_vec(),
            mode: strategy.mode,
            communicator: knobs(
                strategy.mode,
                strategy.geo_steps,
                &strategy.communicator,
                &self.environment,
            )?,
            geo_steps: strategy.geo_steps,
            staleness: strategy.bound(),
            program: transpiled.fingerprint(),
        };
        let worker = Worker::connect(config, transport, self.settings.clone())?;
        self.worker = Some(Connected { worker: Arc::clone(&worker), scope: scope.clone() });
        Ok(Some(worker))
    }

    /// The connection to the servers, between [`Fleet::init_worker`] and [`Fleet::stop_worker`];
    /// `None` for a process without servers.
    pub fn worker(&self) -> Option<&Arc<Worker>> {
        self.worker.as_ref().map(|connected| &connected.worker)
    }

    /// Waits until the servers have everything that this trainer has learned.
    ///
    /// # Errors
    /// When a server is lost.
    pub fn flush(&self) -> Result<()> {
        self.flush_passes()?;
        if let Some(Connected { worker, scope }) = &self.worker {
            worker.flush()?;
            worker.flush_geo(self.main_program()?, scope)?;
        }
        Ok(())
    }

    /// Tells the servers that this trainer has finished, after everything that it learned has
    /// arrived there. A second call does nothing.
    ///
    /// # Errors
    /// When a server is lost.
    pub fn stop_worker(&mut self) -> Result<()> {
        self.need_member("stop_worker")?;
        self.flush()?;
        self.leave();
        self.passes = None;
        if let Some(connected) = self.worker.take() {
            connected.worker.complete()?;
        }
        self.end_embedded()
    }

    /// Waits until all trainers are here, and the servers have everything that they sent.
    ///
    /// # Errors
    /// When one is lost, or none is connected.
    pub fn barrier_worker(&self) -> Result<()> {
        self.need_worker("barrier_worker")?;
        if let Some(group) = self.group("barrier_worker")? {
            return Ok(group.barrier()?);
        }
        let Some(worker) = self.connected("barrier_worker")? else { return Ok(()) };
        worker.flush()?;
        Ok(worker.barrier()?)
    }

    /// The connection; `None` for a process without servers.
    pub(crate) fn connected(&self, method: &str) -> Result<Option<&Arc<Worker>>> {
        if self.role.server_endpoints().is_empty() {
            return Ok(None);
        }
        match self.worker() {
            Some(worker) => Ok(Some(worker)),
            None => Err(Error::Config(format!(
                "`{method}` needs the other processes: call `init_worker` before"
            ))),
        }
    }
}

/// What a script says about a trainer's connection beside its program; `None` where it says nothing.
#[derive(Clone, Default)]
pub struct Tuning {
    /// How gradients are queued and merged.
    pub communicator: CommunicatorFlags,
    /// Geo: steps between two exchanges.
    pub geo_steps: Option<u32>,
    /// Async, hybrid: the bound on staleness, in steps.
    pub staleness: Option<u32>,
    /// How long a request may take.
    pub deadline: Option<Duration>,
    /// How often a request is sent again.
    pub retries: Option<u32>,
    /// Ends every wait when it says yes.
    pub interrupt: Option<Interrupt>,
}

/// Connects a trainer program that a script runs by itself (`exe.run(trainer_program)`): who it is
/// and where its servers are stands in its ops, the rest in the environment.
///
/// # Errors
/// When the program talks to no servers, or one cannot be reached in time.
pub fn connect_trainer(
    program: &Program,
    environment: &Environment,
    tuning: &Tuning,
) -> Result<Arc<Worker>> {
    let mut config = WorkerConfig::from_program(program)?.ok_or_else(nothing_remote)?;
    config.geo_steps = tuning.geo_steps.unwrap_or(config.geo_steps);
    config.staleness = tuning.staleness.unwrap_or(config.staleness);
    config.communicator = knobs(config.mode, config.geo_steps, &tuning.communicator, environment)?;
    let mut settings = settings(environment)?;
    // The environment comes before what a script says.
    if let (None, Some(deadline)) = (environment.rpc.deadline, tuning.deadline) {
        settings.deadline = deadline;
    }
    if let (None, Some(retries)) = (environment.rpc.retries, tuning.retries) {
        settings.retries = retries;
    }
    settings.interrupt = tuning.interrupt.clone();
    Ok(Worker::connect(config, Arc::new(network(environment)), settings)?)
}

fn nothing_remote() -> Error {
    Error::Config("the program has no op that talks to parameter servers".to_owned())
}
