//! The processes of a cluster whose program is cut into stages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};
use bireme_engine::Scope;
use bireme_engine::remote::Remote;
use bireme_engine::tensor::Tensor;
use bireme_ir::Program;
use bireme_ps::heter::{HeterTrainer, HeterWorker, RunsOn};
use bireme_ps::worker::{Worker, WorkerConfig};
use bireme_transpiler::Place as Stage;

use crate::Params;
use crate::cluster::{Cluster, Done};
use crate::models::{Batch, Model};

impl Cluster {
    /// Starts all heter workers, each on a thread.
    pub(crate) fn start_heter(
        &self,
        model: &Model,
        stop: &Arc<AtomicBool>,
    ) -> Vec<JoinHandle<Result<()>>> {
        let Some(heter) = &self.heter else { return Vec::new() };
        let places = heter.stages.iter().enumerate().flat_map(|(stage, workers)| {
            (0..workers.len()).map(move |index| Stage { stage: stage + 1, index })
        });
        let start = |place: Stage| {
            let (cluster, model, stop) = (self.clone(), model.clone(), Arc::clone(stop));
            thread::spawn(move || {
                let asked = |stop: &Arc<AtomicBool>| stop.load(Ordering::Relaxed);
                let ends = || asked(&stop) || cluster.stop_heter.as_ref().is_some_and(asked);
                cluster.run_heter_worker(&model, place, &ends)
            })
        };
        places.map(start).collect()
    }

    /// Serves as the heter worker at `place` until the trainers have finished.
    ///
    /// # Errors
    /// When another process is lost.
    pub fn run_heter_worker(
        &self,
        model: &Model,
        place: Stage,
        interrupt: &dyn Fn() -> bool,
    ) -> Result<()> {
        let transpiled = self.transpile_stage(model, place)?;
        let program = transpiled.trainer_program();
        let config = WorkerConfig::from_program(program)?;
        let config = config.ok_or_else(|| anyhow!("the program names no servers"))?;
        let transport = Arc::clone(&self.transport);
        let worker = Worker::connect(config, Arc::clone(&transport), self.settings.clone())?;
        let remote = Arc::clone(&worker) as Arc<dyn Remote>;
        let mut executor = self.executor(place.index, true)?.remote(remote);
        executor.run(transpiled.trainer_startup(), &[], &[]).context("heter worker startup")?;
        let (scope, settings) = (executor.scope(), self.settings.clone());
        let on = RunsOn { threads: 1, card: executor.device().cloned() };
        let served = HeterWorker::start(program, scope, worker, transport, settings, &on)?;
        Ok(served.run(interrupt)?)
    }

    /// Trains as a trainer that heter workers help.
    pub(crate) fn run_heter_trainer(
        &self,
        model: &Model,
        trainer: usize,
        program: &Program,
        scope: &Scope,
        worker: &Arc<Worker>,
        batches: &[&Batch],
    ) -> Result<(Vec<f64>, Params)> {
        let (transport, settings) = (&self.transport, &self.settings);
        let (worker_too, on) = (Arc::clone(worker), RunsOn::host(1));
        let mut stages =
            HeterTrainer::connect(program, scope, worker_too, transport, settings, &on)?;
        let mut losses = Vec::new();
        for batch in batches {
            let names = model.feeds.iter().map(String::as_str);
            let feeds: Vec<(&str, &Tensor)> = names.zip(batch.iter()).collect();
            let fetched = stages.run(&feeds, &[&model.loss])?;
            let loss = fetched[0].to_f64_vec()[0];
            losses.push(loss);
            if let Some(call) = &self.after_step {
                call(&Done { trainer, steps: losses.len(), loss, worker })?;
            }
        }
        let tables = if trainer == 0 { self.pull_tables(model, worker)? } else { Params::new() };
        stages.complete()?;
        worker.complete()?;
        Ok((losses, tables))
    }
}
