//! Parts of jobs with heter workers.

use std::sync::Arc;

use bireme_engine::{Executor, Scope};
use bireme_ir::Program;
use bireme_ps::heter::{HeterTrainer, HeterWorker, RunsOn};
use bireme_ps::worker::Worker;
use bireme_transpiler::Heter;

use super::server::listens_at;
use super::{Fleet, Tuning};
use crate::settings::{check_guarded, network, settings};
use crate::{Environment, Error, Result, Role, Strategy};

impl Fleet {
    /// The heter workers of this job, and the micro-batches of a step.
    pub(super) fn heter(&self, strategy: &Strategy) -> Option<Heter> {
        let stages = self.role.heter_stages();
        (!stages.is_empty()).then(|| Heter {
            stages: stages.to_vec(),
            micro_batches: strategy.micro_batches as usize,
        })
    }

    /// Connects this trainer to the heter workers, which run what comes after its own stage; the
    /// steps are then made by [`HeterTrainer::run`], not by the executor. It must complete before
    /// [`Fleet::stop_worker`].
    ///
    /// # Errors
    /// When there are no heter workers, [`Fleet::init_worker`] was not called, or one cannot be
    /// reached in time.
    pub fn stages(&self, executor: &Executor, threads: usize) -> Result<HeterTrainer> {
        self.need_worker("stages")?;
        let worker = self.worker_of("stages")?;
        let (program, scope) = (self.main_program()?, executor.scope());
        let on = RunsOn { threads, card: executor.device().cloned() };
        let connected =
            HeterTrainer::connect(program, scope, worker, &self.transport, &self.settings, &on);
        Ok(connected?)
    }

    /// Serves this heter worker's stage, with the parameters in the executor's scope and on its card,
    /// if it has one, until all trainers have finished; tells `on_listening` the endpoint first.
    ///
    /// # Errors
    /// When this is no heter worker, [`Fleet::init_worker`] was not called, the port is taken,
    /// another process is lost, or `interrupt` says yes.
    pub fn run_heter_worker(
        &self,
        executor: &Executor,
        threads: usize,
        interrupt: &dyn Fn() -> bool,
        on_listening: impl FnOnce(&str),
    ) -> Result<()> {
        self.need(Role::HeterWorker, "run_heter_worker")?;
        let worker = self.worker_of("run_heter_worker")?;
        let (transport, settings) = (Arc::clone(&self.transport), self.settings.clone());
        let (program, scope) = (self.main_program()?, executor.scope());
        if self.is_on_network {
            check_guarded(listens_at(program), &settings, &self.environment)?;
        }
        let on = RunsOn { threads, card: executor.device().cloned() };
        let served = HeterWorker::start(program, scope, worker, transport, settings, &on)?;
        let served = served.managed(self.environment.launcher.is_managed());
        on_listening(served.endpoint());
        Ok(served.run(interrupt)?)
    }

    fn worker_of(&self, method: &str) -> Result<Arc<Worker>> {
        self.worker().cloned().ok_or_else(|| {
            Error::Config(format!("`{method}` needs the servers: call `init_worker` before"))
        })
    }
}

/// Connects a trainer's program that a script runs by itself to the heter workers that it names.
///
/// # Errors
/// As [`Fleet::stages`].
pub fn connect_stages(
    program: &Program,
    scope: &Scope,
    worker: Arc<Worker>,
    environment: &Environment,
    tuning: &Tuning,
    on: &RunsOn,
) -> Result<HeterTrainer> {
    let mut settings = settings(environment)?;
    settings.interrupt.clone_from(&tuning.interrupt);
    let transport: Arc<dyn bireme_comm::Transport> = Arc::new(network(environment));
    Ok(HeterTrainer::connect(program, scope, worker, &transport, &settings, on)?)
}

/// Serves a heter worker's program that a script runs by itself.
///
/// # Errors
/// As [`Fleet::run_heter_worker`].
pub fn serve_stage(
    program: &Program,
    scope: &Scope,
    worker: Arc<Worker>,
    environment: &Environment,
    on: &RunsOn,
    interrupt: &dyn Fn() -> bool,
    on_listening: impl FnOnce(&str),
) -> Result<()> {
    let transport = Arc::new(network(environment));
    let settings = settings(environment)?;
    check_guarded(listens_at(program), &settings, environment)?;
    let served = HeterWorker::start(program, scope, worker, transport, settings, on)?;
    let served = served.managed(environment.launcher.is_managed());
    on_listening(served.endpoint());
    Ok(served.run(interrupt)?)
}
