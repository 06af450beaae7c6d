//! Training and inference from a configuration: alone, with servers, or among ranks.
//!
//! [`train`] and [`infer`] are all that the commands call: a configuration in, results out. Who this
//! process is comes from the environment of a launcher; what it has done goes to the log, to the
//! event log of the run, and to the caller.

mod best;
pub mod calendar;
mod checkpoint;
pub mod columns;
mod data;
mod description;
mod events;
mod exact;
mod explain;
mod feed;
mod gpubox;
mod infer;
mod metrics;
mod online;
mod optimizer;
mod own_data;
mod pipe;
mod save;
mod scores;
mod show;
mod shuffle;
mod stop;
mod topology;
mod trainer;
mod validation;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bireme_data::Input;
use bireme_data::table::Table;
use bireme_data::train::divide;
use bireme_engine::device::{Device, OnMemory};
use bireme_engine::gemm::half_kernel;
use bireme_engine::{DType, Executor, Place, ir};
use bireme_fleet::{Environment, Fleet};
use serde::{Deserialize, Serialize};

pub use best::Best;
pub use checkpoint::last as last_checkpoint;
pub use description::{Description, LineSlot, Lines};
pub(crate) use events::INFER;
pub use events::{Event, WithServers};
pub use infer::{Evaluation, infer};
pub use metrics::{auc, auc_of};

use crate::config::{Config, keys};
use crate::zoo::{self, Hyper, Model};
use crate::{Error, Log, Result};
use topology::Topology;
use trainer::Trainer;

/// What `TRAINING_ROLE` calls a server.
const SERVER: &str = "PSERVER";

/// Is told the endpoint of a server that listens.
pub type OnListening = Arc<dyn Fn(&str) + Send + Sync>;

/// Is told of the steps of this trainer, and before the first of them of one without samples.
pub type OnStep = Arc<dyn Fn(&Step) + Send + Sync>;

/// A step of training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Samples of its batch.
    pub samples: u64,
    /// Its loss.
    pub loss: f64,
    /// The first metric of the model, as of now; NaN where it has none.
    pub metric: f64,
}

/// How to run, beside what the configuration says.
#[derive(Clone)]
pub struct Options {
    /// Whether to go on from the last checkpoint. A job that a launcher has started again always
    /// does.
    pub resume: bool,
    /// Lines that may be bad; `None` for what the configuration says.
    pub skip_bad_lines: Option<u64>,
    /// Whether every op's output is checked for NaN and infinity.
    pub check_finite: bool,
    /// Where a server listens, if not at its endpoint in the list (`127.0.0.1:0` for any free
    /// port), and who is told.
    pub listen: Option<(String, OnListening)>,
    /// Says whether somebody wants to stop.
    pub interrupt: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    /// The samples of this process, in place of the files that the configuration names.
    pub input: Option<Arc<dyn Input>>,
    /// The card that `runner.use_gpu` asks for.
    pub device: Option<Arc<dyn Device>>,
    /// Is told what a step takes of the card's memory.
    pub on_memory: Option<OnMemory>,
    /// Who follows the training.
    pub on_step: Option<OnStep>,
    /// Where log lines go.
    pub log: Log,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            resume: false,
            skip_bad_lines: None,
            check_finite: false,
            listen: None,
            interrupt: None,
            input: None,
            device: None,
            on_memory: None,
            on_step: None,
            log: Log::stderr(),
        }
    }
}

impl Options {
    /// The card that a configuration asks for.
    ///
    /// # Errors
    /// When it asks for one and none was given.
    fn card(&self, config: &Config) -> Result<Option<Arc<dyn Device>>> {
        if !config.switch("runner.use_gpu") {
            return Ok(None);
        }
        match &self.device {
            Some(device) => Ok(Some(Arc::clone(device))),
            None => {
                let problem = "asks for a GPU, and none was opened: set `Options::device`";
                Err(config.refuse("runner.use_gpu", problem))
            }
        }
    }

    /// An executor where a configuration wants it.
    fn executor(&self, config: &Config) -> Result<Executor> {
        let executor = match self.card(config)? {
            Some(device) => Executor::on(device),
            None => Executor::new(Place::Cpu)?,
        };
        Ok(executor.check_finite(self.check_finite))
    }
}

/// How many threads train, and over how many each splits its batches: a card works on one batch at a time.
fn threads_on(
    card: Option<&Arc<dyn Device>>,
    program: &ir::Program,
    threads: usize,
    repeatable: bool,
) -> (usize, usize) {
    match card {
        Some(_) => (1, threads.max(1)),
        None => divide(program, threads, repeatable),
    }
}

/// What came out of an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Its number, from 0.
    pub epoch: u64,
    /// The mean loss of this trainer's batches.
    #[serde(with = "exact")]
    pub loss: f64,
    /// Metrics over all trainers, by name.
    #[serde(with = "exact::map")]
    pub metrics: BTreeMap<String, f64>,
    /// Loss and metrics of the validation, by name; none without one.
    #[serde(default, with = "exact::map")]
    pub valid: BTreeMap<String, f64>,
    /// Samples of this trainer.
    pub samples: u64,
    /// How long it took.
    pub seconds: f64,
    /// Where the model was saved; empty where it was not (`runner.save_epochs`).
    pub model: PathBuf,
}

/// What came out of a training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// One for each epoch; none for a server.
    pub epochs: Vec<Epoch>,
    /// The best epoch on the validation data; none without one.
    pub best: Option<Best>,
    /// The folder of the event log, for `bireme report`; none for a server.
    pub run: Option<PathBuf>,
}

/// Trains what a configuration describes, as the process that the environment describes.
///
/// # Errors
/// When the configuration does not fit the model, data cannot be read, a step fails, another
/// process is lost, or somebody wanted to stop ([`Error::Interrupted`]).
pub fn train(config: &Config, environment: &Environment, options: &Options) -> Result<Outcome> {
    let log = &options.log;
    let topology = Topology::of(config, environment)?;
    config.warnings().iter().for_each(|warning| log.warn(warning));
    topology::unread_tables(config).iter().for_each(|warning| log.warn(warning));
    if topology == Topology::Alone && config.has("runner.sync_mode") {
        log.warn(
            "Not Find Distributed env, Change To local train mode. If you want train with fleet, \
             please use [fleetrun] command.",
        );
    }
    log.plain(&config.table());
    if !environment.is_server() {
        options.card(config)?;
    }
    let goes_on = options.resume || environment.launcher.restarts > 0;
    let table = columns::for_training(config, options, goes_on)?;
    let (model, description) = build_on(config, table.as_ref(), log)?;
    let mut environment = environment.clone();
    // After a restart the trainers have the servers load the checkpoint that all of them go on from;
    // servers that loaded a later one, which is not complete, would begin with its values.
    environment.launcher.restarts = 0;
    let threads = u32::try_from(config.count("runner.thread_num")).unwrap_or(1);
    environment.cpu_num = environment.cpu_num.or(Some(threads.max(1)));
    let mut fleet = Fleet::init(topology.role(&environment)?, &environment)?;
    if let Some((address, _)) = &options.listen {
        fleet = fleet.bind(address);
    }
    let amp = optimizer::amp(config, topology)?;
    if let Some(amp) = &amp {
        log.info(&amp.describe());
        let lacks_kernels = options.device.is_none() && half_kernel().is_none();
        if lacks_kernels && amp.dtype == DType::BF16 {
            log.warn_once(
                "this processor multiplies bfloat16 no faster than float32 (it has neither AVX512-BF16 nor \
                 AMX): products are computed in float32",
            );
        }
    }
    let optimizer = optimizer::with_amp(config, topology, amp)?;
    fleet.minimize(&model.loss, &*optimizer, &topology.strategy(config)?)?;
    if fleet.is_server() {
        serve(&mut fleet, config, options, &description)?;
        return Ok(Outcome::default());
    }
    if fleet.is_embedded()
        && let Some(folder) = save::warm_start(config)?
    {
        save::init_server(&mut fleet, &folder, &description, log)?;
    }
    let trained = match config.has("runner.start_day") {
        true => online::Stream::new(config, options, topology, description.model, model, fleet)
            .and_then(|stream| stream.run(goes_on)),
        false => Trainer::new(config, options, topology, description, model, fleet, goes_on)
            .and_then(Trainer::run),
    };
    trained.map_err(|error| explain::with_keys(config, error))
}

/// Whether the process that an environment describes is the trainer of a GPUBox job, which wants a card
/// where the configuration asks for one.
pub fn is_gpubox_trainer(config: &Config, environment: &Environment) -> bool {
    let topology = Topology::of(config, environment);
    topology.is_ok_and(Topology::is_gpubox) && environment.training_role.as_deref() != Some(SERVER)
}

/// Builds the model of a configuration, and describes it.
///
/// # Errors
/// When there is none of that name, or a hyper parameter does not fit it.
pub fn build(config: &Config, log: &Log) -> Result<(Model, Description)> {
    build_on(config, None, log)
}

/// The same for what columns of files become.
fn build_on(
    config: &Config,
    table: Option<&Arc<Table>>,
    log: &Log,
) -> Result<(Model, Description)> {
    let name = model_name(config);
    let entry = zoo::named(&name)
        .map_err(|error| Error::Settings(format!("{}: {error}", config.path().display())))?;
    let mut hyper = config.hyper();
    if let Some(table) = table {
        columns::follow(table, &mut hyper)?;
    }
    let mut model = (entry.build)(&mut hyper)?;
    if let Some(table) = table {
        model.format = columns::format(table, &hyper, entry.name, &model)?;
    }
    model.graph.set_random_seed(config.count("runner.seed") as u64);
    warn_unasked(&hyper, entry.name, log);
    let description = Description::of(entry.name, &hyper, &model);
    Ok((model, description))
}

/// The metric by which trials of a configuration with validation data are compared, and whether more
/// of it is better.
///
/// # Errors
/// When it does not exist, or tells nothing by its size.
pub(crate) fn metric_of_search(config: &Config) -> Result<(String, bool)> {
    let (model, description) = build(config, &Log::silent())?;
    let wanted = scores::Wanted::of(config, zoo::named(&description.model)?, &model)?;
    let names = [metrics::names(&model), wanted.names()].concat();
    best::metric_of_search(config, &names)
}

/// Looks for mistakes in what a configuration says about its optimizer.
///
/// # Errors
/// When there are some.
pub(crate) fn check_optimizer(config: &Config) -> Result<()> {
    optimizer::of(config).map(drop)
}

/// The name that the file gives its model, or that of its folder.
fn model_name(config: &Config) -> String {
    let own = config.text("model");
    if !own.is_empty() {
        return own;
    }
    let folder =
        std::path::absolute(config.folder()).unwrap_or_else(|_| config.folder().to_owned());
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Hyper parameters that the model never asked for.
fn warn_unasked(hyper: &Hyper, model: &str, log: &Log) {
    for (key, place) in hyper.unasked() {
        let is_of_optimizer = key.starts_with("optimizer.");
        if is_of_optimizer || keys::find(&format!("hyper_parameters.{key}")).is_some() {
            continue;
        }
        let near = ir::did_you_mean(&ir::nearest(key, hyper.asked()));
        log.warn(&format!(
            "{place}: model `{model}` has no hyper parameter `{key}`, it is ignored{near}"
        ));
    }
}

/// Holds parameters until all trainers have finished.
fn serve(
    fleet: &mut Fleet,
    config: &Config,
    options: &Options,
    description: &Description,
) -> Result<()> {
    options.log.info("Run Server Begin");
    match save::warm_start(config)? {
        Some(folder) => save::init_server(fleet, &folder, description, &options.log)?,
        None => fleet.init_server(None)?,
    }
    let interrupt = || options.interrupt.as_ref().is_some_and(|asked| asked());
    let listening = |endpoint: &str| {
        if let Some((_, tell)) = &options.listen {
            tell(endpoint);
        }
    };
    match fleet.run_server(&interrupt, listening) {
        Err(_) if interrupt() => Err(Error::Interrupted),
        served => Ok(served?),
    }
}
