//! Whole clusters in one process: servers and trainers on threads, over a network in memory or over
//! loopback; and each role alone, for tests that give it a process of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bireme_comm::{Memory, Network, Path, Settings, Transport};
use bireme_engine::device::Device;
use bireme_engine::remote::{Remote, RowSpread, TableRef};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Scope};
use bireme_ir::{Attr, Program};
use bireme_ps::server::PsServer;
use bireme_ps::worker::{Worker, WorkerConfig};
use bireme_transpiler::{Config, Heter, Mode, Place as Stage, Transpiled, Transpiler};

use crate::Params;
use crate::models::{Batch, Model, share};

/// The shape of a cluster, and how it keeps time.
#[derive(Clone)]
pub struct Cluster {
    /// Parameter servers.
    pub servers: usize,
    /// Trainers.
    pub trainers: usize,
    /// The transpiler's settings, the mode among them.
    pub config: Config,
    /// Changes to a worker's settings, by what the program says.
    pub tune: fn(&mut WorkerConfig),
    /// Deadlines and heartbeats.
    pub settings: Settings,
    /// What carries the bytes.
    pub transport: Arc<dyn Transport>,
    /// The servers, as programs call them.
    pub endpoints: Vec<String>,
    /// Where all servers listen instead: port 0 stands for any free one.
    pub bind: Option<String>,
    /// What the servers begin with.
    pub checkpoint: Option<PathBuf>,
    /// Called by every trainer after each of its steps; its error ends the trainer.
    pub after_step: Option<AfterStep>,
    /// Heter workers that run a part of the program.
    pub heter: Option<Heter>,
    /// Ends the heter workers when it becomes true.
    pub stop_heter: Option<Arc<AtomicBool>>,
    /// The cards of trainers, or of heter workers where there are some.
    pub cards: Option<Cards>,
}

/// The card of a process, by its number within its role.
pub type Cards = Arc<dyn Fn(usize) -> Arc<dyn Device> + Send + Sync>;

/// What a test does between the steps.
pub type AfterStep = Arc<dyn Fn(&Done<'_>) -> Result<()> + Send + Sync>;

/// A step that a trainer has made.
pub struct Done<'a> {
    /// The trainer.
    pub trainer: usize,
    /// Steps that it has made.
    pub steps: usize,
    /// The loss of this one.
    pub loss: f64,
    /// Its way to the servers.
    pub worker: &'a Worker,
}

/// What is left of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Whole parameters, put together from the servers' pieces; keyed tables too.
    pub params: Params,
    /// The loss of every step, of every trainer.
    pub losses: Vec<Vec<f64>>,
}

impl Cluster {
    /// A cluster in sync mode over a fault-free network.
    pub fn new(trainers: usize, servers: usize) -> Cluster {
        let settings = Settings {
            deadline: Duration::from_secs(60),
            heartbeat: Duration::from_millis(200),
            ..Settings::default()
        };
        Cluster {
            servers,
            trainers,
            config: Config::new(),
            tune: |_| {},
            settings,
            transport: Arc::new(Memory::new(0)),
            endpoints: (1..=servers).map(|server| format!("10.0.0.{server}:6174")).collect(),
            bind: None,
            checkpoint: None,
            after_step: None,
            heter: None,
            stop_heter: None,
            cards: None,
        }
    }

    /// The same with trainers, or heter workers where there are some, on cards.
    pub fn on_cards(
        self,
        card: impl Fn(usize) -> Arc<dyn Device> + Send + Sync + 'static,
    ) -> Cluster {
        Cluster { cards: Some(Arc::new(card)), ..self }
    }

    /// An executor for process `index` of a role that may have cards.
    pub(crate) fn executor(&self, index: usize, on_card: bool) -> Result<Executor> {
        Ok(match self.cards.as_ref().filter(|_| on_card) {
            Some(card) => Executor::on(card(index)),
            None => Executor::new(Place::Cpu)?,
        })
    }

    /// The same with heter workers, so many in each stage after the first.
    pub fn with_heter(self, workers: &[usize], micro_batches: usize) -> Cluster {
        let of_stage = |(stage, count): (usize, &usize)| {
            (1..=*count).map(|worker| format!("10.0.{}.{worker}:6174", stage + 1)).collect()
        };
        let stages = workers.iter().enumerate().map(of_stage).collect();
        Cluster { heter: Some(Heter { stages, micro_batches }), ..self }
    }

    /// The same over TCP on loopback, with ports that are free.
    pub fn over_tcp(self) -> Cluster {
        let transport = Arc::new(Network::new(Path::Tcp));
        Cluster { transport, bind: Some("127.0.0.1:0".to_owned()), ..self }
    }

    /// The same in another mode.
    pub fn in_mode(mut self, mode: Mode) -> Cluster {
        self.config.set_mode(mode);
        self
    }

    /// The same with something to do after each step.
    pub fn after_step(
        self,
        call: impl Fn(&Done<'_>) -> Result<()> + Send + Sync + 'static,
    ) -> Cluster {
        Cluster { after_step: Some(Arc::new(call)), ..self }
    }

    /// The same with heter workers that end when `stop` becomes true.
    pub fn stop_heter(self, stop: &Arc<AtomicBool>) -> Cluster {
        Cluster { stop_heter: Some(Arc::clone(stop)), ..self }
    }

    /// The programs as trainer `trainer` sees them.
    ///
    /// # Errors
    /// When the transpiler refuses them.
    pub fn transpile(&self, model: &Model, trainer: usize) -> Result<Transpiled> {
        self.transpile_stage(model, Stage { stage: 0, index: trainer })
    }

    /// The programs as a process of some stage sees them.
    ///
    /// # Errors
    /// When the transpiler refuses them.
    pub fn transpile_stage(&self, model: &Model, place: Stage) -> Result<Transpiled> {
        let transpiler = Transpiler::new(self.config.clone())?;
        let (main, startup, servers) = (&model.main, &model.startup, &self.endpoints);
        let (trainers, sync) = (self.trainers, self.config.sync_mode);
        Ok(match &self.heter {
            None => transpiler.transpile(place.index, main, startup, servers, trainers, sync)?,
            Some(heter) => {
                transpiler.transpile_heter(place, main, startup, servers, trainers, heter, sync)?
            }
        })
    }

    /// Trains on `batches`, each divided among the trainers.
    ///
    /// # Errors
    /// The first error of any role.
    pub fn train(&self, model: &Model, batches: &[Batch]) -> Result<Outcome> {
        let share_of = |trainer| batches.iter().map(|b| share(b, trainer, self.trainers)).collect();
        let shares: Vec<Vec<Batch>> = (0..self.trainers).map(share_of).collect();
        self.train_shares(model, shares)
    }

    /// Trains, trainer by trainer, on the batches that each is given.
    ///
    /// # Errors
    /// The first error of any role.
    pub fn train_shares(&self, model: &Model, shares: Vec<Vec<Batch>>) -> Result<Outcome> {
        let scopes: Vec<Scope> = (0..self.servers).map(|_| Scope::new()).collect();
        // Servers wait long for trainers that never come; a test does not.
        let stop = Arc::new(AtomicBool::new(false));
        let mut endpoints = Vec::new();
        let mut servers = Vec::new();
        for (index, scope) in scopes.iter().enumerate() {
            let server = self.start_server(model, index, scope)?;
            endpoints.push(server.endpoint().to_owned());
            let stop = Arc::clone(&stop);
            servers.push(thread::spawn(move || Ok(server.run(&|| stop.load(Ordering::Relaxed))?)));
        }
        let cluster = Cluster { endpoints, ..self.clone() };
        let helpers = cluster.start_heter(model, &stop);
        let trainers: Vec<_> = shares
            .into_iter()
            .enumerate()
            .map(|(trainer, batches)| {
                let (cluster, model) = (cluster.clone(), model.clone());
                thread::spawn(move || cluster.run_trainer(&model, trainer, &batches))
            })
            .collect();
        let mut losses = Vec::new();
        let mut tables = Params::new();
        let mut failed: Option<anyhow::Error> = None;
        for (index, trainer) in trainers.into_iter().enumerate() {
            match join(trainer).with_context(|| format!("trainer {index}")) {
                Ok((steps, rows)) => {
                    losses.push(steps);
                    tables.extend(rows);
                }
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    failed = failed.or(Some(error));
                }
            }
        }
        for (index, helper) in helpers.into_iter().enumerate() {
            let ended = join(helper).with_context(|| format!("heter worker {index}"));
            failed = failed.or(ended.err());
        }
        for (index, server) in servers.into_iter().enumerate() {
            let ended = join(server).with_context(|| format!("server {index}"));
            failed = failed.or(ended.err());
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let mut params = self.gather(model, &scopes)?;
        params.extend(tables);
        Ok(Outcome { params, losses })
    }

    /// Starts server `index`; its values are in `scope` when it has run.
    ///
    /// # Errors
    /// When its programs, its checkpoint or its address are no good.
    pub fn start_server(&self, model: &Model, index: usize, scope: &Scope) -> Result<PsServer> {
        let transpiled = self.transpile(model, 0)?;
        let endpoint = &self.endpoints[index];
        let mut executor = Executor::new(Place::Cpu)?.with_scope(scope.clone());
        executor.run(&transpiled.startup_program(endpoint)?, &[], &[]).context("server startup")?;
        let mut program = transpiled.pserver_program(endpoint)?;
        if let Some(address) = &self.bind {
            listen_at(&mut program, address);
        }
        let (transport, settings) = (Arc::clone(&self.transport), self.settings.clone());
        let server = PsServer::start(&program, scope, transport, settings)?;
        // Nobody knows yet where it listens.
        if let Some(folder) = &self.checkpoint {
            server.load(&folder.to_string_lossy())?;
        }
        Ok(server)
    }

    /// Trains as trainer `trainer` on its own batches; the losses, and from trainer 0 the rows of
    /// keyed tables.
    ///
    /// # Errors
    /// When a step fails.
    pub fn run_trainer<'a>(
        &self,
        model: &Model,
        trainer: usize,
        batches: impl IntoIterator<Item = &'a Batch>,
    ) -> Result<(Vec<f64>, Params)> {
        let transpiled = self.transpile(model, trainer)?;
        let program = transpiled.trainer_program();
        let config = WorkerConfig::from_program(program)?;
        let mut config = config.ok_or_else(|| anyhow!("the program names no servers"))?;
        (self.tune)(&mut config);
        let transport = Arc::clone(&self.transport);
        let worker = Worker::connect(config, transport, self.settings.clone())?;
        let remote = Arc::clone(&worker) as Arc<dyn Remote>;
        let mut executor = self.executor(trainer, self.heter.is_none())?.remote(remote);
        executor.run(transpiled.trainer_startup(), &[], &[]).context("trainer startup")?;
        if self.heter.is_some() {
            let batches: Vec<&Batch> = batches.into_iter().collect();
            let scope = executor.scope();
            return self.run_heter_trainer(model, trainer, program, scope, &worker, &batches);
        }
        let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
        let mut step = executor.prepare(program, &feeds, &[&model.loss])?;
        let mut losses = Vec::new();
        for batch in batches {
            step.run(&batch.iter().collect::<Vec<&Tensor>>())?;
            let loss = step.fetched(0).to_f64_vec()[0];
            losses.push(loss);
            if let Some(call) = &self.after_step {
                call(&Done { trainer, steps: losses.len(), loss, worker: &worker })?;
            }
        }
        drop(step);
        worker.flush_geo(program, executor.scope())?;
        // Before it completes, so that what others push is only missing where nobody waits.
        let tables = if trainer == 0 { self.pull_tables(model, &worker)? } else { Params::new() };
        worker.complete()?;
        Ok((losses, tables))
    }

    /// The rows of keyed tables, as the servers have them now.
    pub(crate) fn pull_tables(&self, model: &Model, worker: &Worker) -> Result<Params> {
        let mut tables = Params::new();
        for (name, keys, width) in &model.tables {
            let table = TableRef {
                name: name.clone(),
                width: *width,
                padding: None,
                spread: RowSpread::Keys { shards: 1000 },
                endpoints: self.endpoints.clone(),
                names: vec![name.clone(); self.servers],
            };
            let ids: Vec<i64> = keys.iter().map(|key| *key as i64).collect();
            let mut rows = vec![0.0; keys.len() * width];
            worker.pull_rows(&table, &[&ids], &mut [&mut rows])?;
            tables.insert(name.clone(), rows);
        }
        Ok(tables)
    }

    /// Whole parameters from the pieces that the servers left in their scopes.
    fn gather(&self, model: &Model, scopes: &[Scope]) -> Result<Params> {
        let transpiled = self.transpile(model, 0)?;
        let mut params = Params::new();
        for located in transpiled.located() {
            let mut whole = Vec::new();
            for piece in located.pieces {
                let scope = &scopes[piece.server];
                whole.extend_from_slice(scope.get(&piece.name)?.as_slice::<f32>()?);
            }
            params.insert(located.param.to_owned(), whole);
        }
        Ok(params)
    }
}

/// Changes where a server program listens.
fn listen_at(program: &mut Program, address: &str) {
    for op in &mut program.global_mut().ops {
        if op.kind == "listen_and_serv" {
            op.attrs.insert("endpoint".into(), Attr::String(address.to_owned()));
        }
    }
}

pub(crate) fn join<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(anyhow!("panicked: {}", text.unwrap_or_default()))
    })
}
