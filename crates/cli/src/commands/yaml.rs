//! `bireme train -m config.yaml` and `bireme infer -m config.yaml`: PaddleRec's configurations.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use bireme_fleet::Environment;
use bireme_launch::arguments::Flavor;
use bireme_rec::run::{self, Evaluation, Options};
use bireme_rec::{Config, Error, Log};

use super::{Host, Outcome};
use crate::device::{self, Choice};
use crate::interrupt::Interrupt;
use crate::terminal::say;

/// How long a training that was told to stop may take to save what it has.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(60);

/// What a configuration is, on every command that takes one.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Source {
    /// Values that come before those of the file: `-o runner.epochs=2 runner.thread_num=4`
    #[arg(long = "opt", short = 'o', value_name = "KEY=VALUE", num_args = 1..)]
    pub(crate) options: Vec<String>,
    /// Bad lines of data that are passed over before one is an error
    #[arg(long = "skip_bad_lines", alias = "skip-bad-lines", value_name = "N")]
    pub(crate) skip_bad_lines: Option<u64>,
}

/// A training from YAML, as the command line describes it.
pub(crate) struct Training<'a> {
    pub(crate) config: &'a PathBuf,
    pub(crate) source: &'a Source,
    pub(crate) resume: bool,
    pub(crate) check_finite: bool,
    /// Whether only warnings and results are shown.
    pub(crate) quiet: bool,
    /// A local cluster: servers and trainers, and their mode.
    pub(crate) servers: Option<usize>,
    pub(crate) workers: Option<usize>,
    pub(crate) mode: Option<String>,
    /// Where it trains, if not where the configuration says.
    pub(crate) device: Option<Choice>,
}

/// Trains.
///
/// # Errors
/// As [`run::train`].
pub(crate) fn train(training: &Training<'_>, host: &Host) -> Result<Outcome> {
    let environment = Environment::read()?;
    let launched = environment.training_role.is_some() || environment.servers.is_some();
    if training.servers.is_some() || training.workers.is_some() || training.mode.is_some() {
        ensure!(
            !launched,
            "`--servers`, `--workers` and `--mode` start a cluster, but a launcher has started this \
             process already: leave them out, and set the mode with `-o runner.sync_mode=sync`"
        );
        return cluster(training, host);
    }
    bireme_fleet::log_to_stderr(environment.rpc.log.as_deref());
    let mut config = Config::load(training.config, &training.source.options)?;
    device::choose(&mut config, training.device);
    let interrupt = Interrupt::install()?;
    interrupt.end_within(LAST_WORDS)?;
    let options = Options {
        device: device::card_of(&config, training.device, &environment)?,
        on_memory: Some(device::on_memory(training.quiet)),
        resume: training.resume,
        skip_bad_lines: training.source.skip_bad_lines,
        check_finite: training.check_finite,
        interrupt: Some(asked(interrupt)),
        log: if training.quiet { Log::stderr().quiet() } else { Log::stderr() },
        ..Options::default()
    };
    let outcome = match run::train(&config, &environment, &options) {
        Err(Error::Interrupted) => {
            say_interrupted(&config);
            return Ok(Outcome::Interrupted);
        }
        outcome => outcome?,
    };
    let is_first = environment.trainer_id.unwrap_or(0) == 0;
    if let (true, Some(epoch), Some(run)) = (is_first, outcome.epochs.last(), outcome.run) {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", result(epoch.epoch, epoch.loss, &epoch.metrics))?;
        writeln!(out, "model   {}", epoch.model.display())?;
        if let Some(best) = outcome.best {
            writeln!(out, "best    epoch {}: valid {} {:.6}", best.epoch, best.metric, best.value)?;
        }
        writeln!(out, "curves  bireme report {}", run.display())?;
    }
    Ok(Outcome::Done)
}

/// Says where a training that was stopped can be resumed.
pub(super) fn say_interrupted(config: &Config) {
    say(&match run::last_checkpoint(config) {
        Some(path) => format!("interrupted; `--resume` goes on from {}", path.display()),
        None => "interrupted before the first checkpoint; nothing is saved".to_owned(),
    });
}

/// What came out of an epoch, in a line.
fn result(epoch: u64, loss: f64, metrics: &BTreeMap<String, f64>) -> String {
    let metrics = metrics.iter().map(|(name, value)| format!(", {name} {value:.6}"));
    format!("epoch {epoch}: loss {loss:.6}{}", metrics.collect::<String>())
}

/// Trains with servers and trainers on this machine, by the launcher that clusters of machines
/// have too.
fn cluster(training: &Training<'_>, host: &Host) -> Result<Outcome> {
    let (servers, workers) = (training.servers.unwrap_or(1), training.workers.unwrap_or(2));
    let mut words: Vec<OsString> = match servers {
        0 => vec!["--run_mode=collective".into(), format!("--nproc_per_node={workers}").into()],
        _ => {
            vec![format!("--server_num={servers}").into(), format!("--worker_num={workers}").into()]
        }
    };
    words.extend(training.quiet.then(|| "--log_level=ERROR".into()));
    words.extend(["-m".into(), training.config.clone().into_os_string()]);
    let mut options = training.source.options.clone();
    if servers == 0 {
        ensure!(training.mode.is_none(), "`--mode` is about servers: raise `--servers`");
        options.push("runner.use_fleet=true".to_owned());
    }
    // Trainers of one machine have the same files; who wants each to read all of them says so.
    let config = Config::load(training.config, &options)?;
    let mut gpus = device::selected(&config)?;
    if let Some(Choice::Card(Some(number))) = training.device {
        gpus = vec![number];
    }
    if !gpus.is_empty() {
        let gpus: Vec<_> = gpus.iter().map(u32::to_string).collect();
        words.insert(0, format!("--gpus={}", gpus.join(",")).into());
    }
    if workers > 1 && !config.has("runner.split_file_list") && !config.switch("runner.share_files")
    {
        say("each trainer reads a part of the data (`-o runner.split_file_list=true`)");
        options.push("runner.split_file_list=true".to_owned());
    }
    options.extend(training.mode.iter().map(|mode| format!("runner.sync_mode={mode}")));
    if !options.is_empty() {
        words.push("-o".into());
        words.extend(options.into_iter().map(OsString::from));
    }
    words.extend(training.source.skip_bad_lines.map(|n| format!("--skip_bad_lines={n}").into()));
    words.extend(training.resume.then(|| "--resume".into()));
    words.extend(training.check_finite.then(|| "--check-finite".into()));
    words.extend(training.quiet.then(|| "--quiet".into()));
    // Which card a trainer takes is the launcher's choice.
    words.extend(training.device.map(|choice| match choice {
        Choice::Cpu => "--device=cpu".into(),
        Choice::Card(_) => "--device=gpu".into(),
    }));
    let launcher = bireme_launch::Host {
        program: "bireme train".to_owned(),
        python: host.python.clone(),
        bireme: host.command()?,
        flavor: Flavor::Fleetrun,
        one_display: false,
    };
    Ok(match bireme_launch::run(&words, &launcher) {
        0 => Outcome::Done,
        code => Outcome::Ended(code),
    })
}

/// Evaluate saved models on the test data of a configuration
///
/// Loads the models of the epochs `runner.infer_start_epoch` up to, and without,
/// `runner.infer_end_epoch` from `runner.infer_load_path`, and computes their metrics on
/// `runner.test_data_dir`. Without these keys, tries the epoch that validation found the best, if there
/// was one.
#[derive(Debug, clap::Args)]
pub(crate) struct InferArgs {
    /// The YAML file
    #[arg(long = "config_yaml", alias = "config-yaml", short = 'm', value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Where to run: cpu, gpu or gpu:1 [default: as `runner.use_gpu` says]
    #[arg(long, value_name = "DEVICE", value_parser = device::parse)]
    device: Option<Choice>,
}

/// Runs `bireme infer`.
///
/// # Errors
/// As [`run::infer`].
pub(crate) fn infer(args: &InferArgs) -> Result<Outcome> {
    let mut config = Config::load(&args.config, &args.source.options)?;
    device::choose(&mut config, args.device);
    let options = Options {
        device: device::card_of(&config, args.device, &Environment::read()?)?,
        on_memory: Some(device::on_memory(false)),
        skip_bad_lines: args.source.skip_bad_lines,
        interrupt: Some(asked(Interrupt::install()?)),
        ..Options::default()
    };
    let evaluations = match run::infer(&config, &options) {
        Err(Error::Interrupted) => {
            say("interrupted");
            return Ok(Outcome::Interrupted);
        }
        evaluations => evaluations?,
    };
    let mut out = io::stdout().lock();
    for evaluation in evaluations {
        let Evaluation { epoch, loss, metrics, samples, .. } = evaluation;
        writeln!(out, "{}, {samples} samples", result(epoch, loss, &metrics))?;
    }
    Ok(Outcome::Done)
}

pub(super) fn asked(interrupt: Interrupt) -> Arc<dyn Fn() -> bool + Send + Sync> {
    Arc::new(move || interrupt.is_raised())
}
