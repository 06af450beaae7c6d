//! `bireme train`: the built-in demo, from data to a saved model.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use std::ffi::OsString;

use anyhow::{Context, Result, bail, ensure};
use bireme_engine::{Executor, Place, Scope, io};
use bireme_fleet::{Environment, Mode};

use super::{
    Host, MAX_THREADS, Outcome, available_cores, none_or_up_to, positive_real, up_to, yaml,
};
use crate::cluster::{Cluster, Recipe};
use crate::demo::data::{Samples, Source};
use crate::demo::member::{self, Job};
use crate::demo::metrics;
use crate::demo::model::{Config, CtrDnn};
use crate::demo::share::Share;
use crate::demo::training::{self, Parallel, Schedule};
use crate::demo::watch::{self, Watched};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::rows::MAX_ROWS;
use crate::terminal;
use crate::units::{grouped, plural, shell};

/// The model's name in its folder.
const MODEL: &str = "model";
/// The folder of a model that is not finished.
const INTERRUPTED: &str = "interrupted";
/// Lines in the sample file that `predict` can be tried with.
const SAMPLE_LINES: usize = 100;
/// Samples, and rows of the table: a hundred million take some 10 GiB of memory.
const MAX_SIZE: usize = 100_000_000;
const MAX_EPOCHS: usize = 1_000_000;
/// Servers, and trainers: more than this no machine has cores for.
const MAX_PROCESSES: usize = 64;
const DEFAULT_SERVERS: usize = 1;
const DEFAULT_WORKERS: usize = 2;

/// Train a model: of a YAML file with `-m`, else an example on generated data
///
/// Without `-m`, generates Criteo-like click data (26 slots of skewed ids, 13 dense features, labels from a
/// hidden model), trains the CTR-DNN of PaddleRec on it, evaluates it on data it has not seen, and
/// saves it. Trains on a local cluster: parameter servers and trainers in processes of their own,
/// each with its share of every batch; under a launcher (`fleetrun --server_num=1 --worker_num=2
/// bireme train`) it is one of them, as the environment says. Needs no arguments and takes less than a minute on two
/// cores. Ctrl-C ends training after the current step and saves what there is in the folder
/// `interrupted` of the output folder.
///
/// With `-m config.yaml`, trains what PaddleRec's YAML describes instead, on your data: alone, on a
/// local cluster (`--servers`, `--workers`, `--mode`), or as one process of a launcher's job.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Train what this YAML file of PaddleRec describes
    #[arg(long = "config_yaml", alias = "config-yaml", short = 'm', value_name = "FILE")]
    #[arg(conflicts_with_all = ["samples", "epochs", "local", "member", "batch_size", "threads",
          "parallel", "learning_rate", "seed", "rows", "output", "quiet"])]
    config: Option<PathBuf>,
    #[command(flatten)]
    source: yaml::Source,
    /// Go on from the last checkpoint of the training that `-m` describes
    #[arg(long, requires = "config")]
    resume: bool,
    /// Samples to train on; a tenth as many are held out for evaluation
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = up_to::<MAX_SIZE>)]
    samples: usize,
    /// Times to go through the samples
    #[arg(long, value_name = "N", default_value = "1", value_parser = up_to::<MAX_EPOCHS>)]
    epochs: usize,
    /// Parameter servers; 0 is `--local` [default: 1]
    #[arg(long, value_name = "N", value_parser = none_or_up_to::<MAX_PROCESSES>)]
    servers: Option<usize>,
    /// Trainers [default: 2]
    #[arg(long, value_name = "N", value_parser = up_to::<MAX_PROCESSES>)]
    workers: Option<usize>,
    /// How trainers keep time with each other [default: sync]
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// Train in this process alone, without servers
    #[arg(long, conflicts_with_all = ["servers", "workers", "mode"])]
    local: bool,
    /// Be a process of a cluster; the environment says which
    #[arg(long, hide = true)]
    member: bool,
    /// Samples in one step, of all trainers together
    #[arg(long, value_name = "N", default_value = "512", value_parser = up_to::<MAX_ROWS>)]
    batch_size: usize,
    /// Threads to train with, of all trainers together [default: all processors]
    #[arg(long, value_name = "N", value_parser = up_to::<MAX_THREADS>)]
    threads: Option<usize>,
    /// How the threads of one process share the work; `threads` needs `--local`
    #[arg(long, value_enum, default_value = "batch")]
    parallel: Parallel,
    /// Learning rate of Adam
    #[arg(long, value_name = "RATE", default_value = "0.001", value_parser = positive_real)]
    #[arg(allow_negative_numbers = true)]
    learning_rate: f32,
    /// Seed of the data and of the model's initial values
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Rows of the embedding table
    #[arg(long, value_name = "N", default_value = "1000001", value_parser = up_to::<MAX_SIZE>)]
    rows: usize,
    /// Folder for the model and a file of sample lines; made if missing
    #[arg(long, value_name = "FOLDER", default_value = "bireme-demo")]
    output: PathBuf,
    /// Stop at the first op that produces NaN or infinity, and name it
    #[arg(long)]
    check_finite: bool,
    /// Show no progress and no advice
    #[arg(long, short)]
    quiet: bool,
}

/// How trainers keep time with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum ModeArg {
    /// One update a step from all trainers' gradients: the same result as `--local`
    Sync,
    /// Gradients are applied as they come
    Async,
    /// As async, but a trainer waits for its own gradients
    HalfAsync,
    /// Trainers update copies of their own and exchange differences
    Geo,
    /// Dense parameters as in sync, tables as in async
    Hybrid,
}

impl ModeArg {
    fn mode(self) -> Mode {
        match self {
            ModeArg::Sync => Mode::Sync,
            ModeArg::Async => Mode::Async,
            ModeArg::HalfAsync => Mode::HalfAsync,
            ModeArg::Geo => Mode::Geo,
            ModeArg::Hybrid => Mode::Hybrid,
        }
    }

    fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self).expect("no mode is skipped");
        value.get_name().to_owned()
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, host: &Host) -> Result<Outcome> {
    if let Some(config) = &args.config {
        let training = yaml::Training {
            config,
            source: &args.source,
            resume: args.resume,
            check_finite: args.check_finite,
            servers: args.servers,
            workers: args.workers,
            mode: args.mode.map(ModeArg::name),
        };
        return yaml::train(&training, host);
    }
    if let Some(option) = args.source.options.first() {
        bail!(
            "`-o {option}` changes a value of a YAML file: name one with `-m` (the folder of the \
               demo is `--output`)"
        );
    }
    ensure!(
        args.source.skip_bad_lines.is_none(),
        "`--skip_bad_lines` is about data files: use `-m`"
    );
    if args.member {
        return member::run(&args.job()).map(|()| Outcome::Done);
    }
    let environment = Environment::read()?;
    if !args.is_local() && is_launched(&environment) {
        return launched(args, &environment);
    }
    args.check()?;
    check_writable(&args.output)?;
    let interrupt = Interrupt::install()?;
    match args.is_local() {
        true => local(args, &interrupt),
        false => cluster(args, host, &interrupt),
    }
}

impl Args {
    fn is_local(&self) -> bool {
        self.local || self.servers == Some(0)
    }

    fn servers(&self) -> usize {
        self.servers.unwrap_or(DEFAULT_SERVERS)
    }

    fn workers(&self) -> usize {
        self.workers.unwrap_or(DEFAULT_WORKERS)
    }

    fn mode(&self) -> ModeArg {
        self.mode.unwrap_or(ModeArg::Sync)
    }

    fn config(&self) -> Config {
        Config { rows: self.rows, learning_rate: self.learning_rate, seed: self.seed }
    }

    /// Refuses what does not go together.
    fn check(&self) -> Result<()> {
        if self.is_local() {
            let only = "is about trainers of a cluster, which needs a server: raise `--servers`";
            ensure!(self.workers.is_none(), "`--workers` {only}");
            ensure!(self.mode.is_none(), "`--mode` {only}");
            return Ok(());
        }
        if self.parallel == Parallel::Threads {
            bail!(
                "`--parallel threads` is about the threads of one process: add `--local`, or use \
                 more `--workers`"
            );
        }
        // What trainers would find out much later.
        Share::new(self.samples, self.batch_size, 0, self.workers())?;
        Ok(())
    }

    /// The arguments of the members of a cluster.
    fn for_members(&self) -> Vec<OsString> {
        let numbers = [
            ("--samples", self.samples.to_string()),
            ("--epochs", self.epochs.to_string()),
            ("--batch-size", self.batch_size.to_string()),
            ("--threads", (self.threads() / self.workers()).max(1).to_string()),
            ("--learning-rate", self.learning_rate.to_string()),
            ("--seed", self.seed.to_string()),
            ("--rows", self.rows.to_string()),
            ("--mode", self.mode().name()),
        ];
        let mut arguments: Vec<OsString> = ["train", "--member"].map(OsString::from).to_vec();
        for (flag, value) in numbers {
            arguments.extend([flag.into(), value.into()]);
        }
        arguments.extend(["--output".into(), self.output.clone().into_os_string()]);
        if self.check_finite {
            arguments.push("--check-finite".into());
        }
        arguments
    }

    /// What a member does; its threads are its own.
    fn job(&self) -> Job {
        Job {
            config: self.config(),
            mode: self.mode().mode(),
            samples: self.samples,
            epochs: self.epochs,
            batch_size: self.batch_size,
            threads: self.threads(),
            check_finite: self.check_finite,
            finished: self.output.join(MODEL),
            interrupted: self.output.join(INTERRUPTED).join(MODEL),
        }
    }

    /// Samples to go through.
    fn total(&self) -> u64 {
        self.samples as u64 * self.epochs as u64
    }

    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(available_cores)
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            terminal::say(text);
        }
    }
}

/// Trains in this process.
fn local(args: &Args, interrupt: &Interrupt) -> Result<Outcome> {
    let threads = args.threads();
    let started = Instant::now();
    let source = Source::new(args.seed, args.rows, threads)?;
    let range = 0..args.samples as u64;
    let Some(train) = source.samples_unless(range, threads, || interrupt.is_raised()) else {
        return Ok(interrupted(args, 0));
    };
    let held_out = held_out(args, &source, threads);
    drop(source);
    args.say(&format!(
        "generated {} samples and {} held-out ones in {:.1}s",
        grouped(train.len() as u64),
        grouped(held_out.len() as u64),
        started.elapsed().as_secs_f64()
    ));

    let model = CtrDnn::build(args.config())?;
    let scope = Scope::new();
    Executor::new(Place::Cpu)?.with_scope(scope.clone()).run(&model.startup, &[], &[])?;
    let schedule = Schedule {
        epochs: args.epochs,
        batch_size: args.batch_size,
        threads,
        parallel: args.parallel,
        check_finite: args.check_finite,
    };
    args.say(&format!("training on {}, batches of {}", plural(threads, "thread"), args.batch_size));
    let progress = Mutex::new(Progress::new(args.total(), args.quiet));
    let trained = training::train(&model, &scope, &train, schedule, &progress, interrupt);
    let mut progress = progress.into_inner().expect("progress does not panic");
    progress.finish();
    trained?;

    let save = |prefix: &Path| save(prefix, &model, &scope);
    if interrupt.is_raised() {
        let done = progress.done();
        if done > 0 {
            save(&args.output.join(INTERRUPTED).join(MODEL))?;
        }
        return Ok(interrupted(args, done));
    }
    let prefix = args.output.join(MODEL);
    save(&prefix)?;
    finish(args, &prefix, &held_out, threads)
}

/// Trains on a cluster of processes.
fn cluster(args: &Args, host: &Host, interrupt: &Interrupt) -> Result<Outcome> {
    let command = host.command()?;
    let recipe = Recipe { command, arguments: args.for_members(), unset: Vec::new() };
    let mut cluster = Cluster::new(recipe, args.servers(), args.workers())?;
    let Some(endpoints) = cluster.start_servers(interrupt)? else {
        return Ok(interrupted(args, 0));
    };
    cluster.start_trainers(&endpoints)?;
    args.say(&format!(
        "training with {} and {}, mode {}, batches of {}",
        plural(args.servers(), "server"),
        plural(args.workers(), "trainer"),
        args.mode().name(),
        args.batch_size
    ));
    let watched =
        watch::watch(&mut cluster, args.mode().mode(), args.total(), args.quiet, interrupt)?;
    match watched {
        Watched::Interrupted { done, saved } => Ok(interrupted(args, if saved { done } else { 0 })),
        Watched::Complete => {
            let threads = args.threads();
            let source = Source::new(args.seed, args.rows, threads)?;
            let held_out = held_out(args, &source, threads);
            drop(source);
            finish(args, &args.output.join(MODEL), &held_out, threads)
        }
    }
}

/// Whether a launcher says who this process is.
fn is_launched(environment: &Environment) -> bool {
    let is_one_of_several = environment.trainers.is_some_and(|trainers| trainers > 1);
    environment.training_role.is_some() || environment.servers.is_some() || is_one_of_several
}

/// Trains as the process that a launcher says this is.
fn launched(args: &Args, environment: &Environment) -> Result<Outcome> {
    let launcher = "which the launcher of this process decides (`--server_num`, `--worker_num`)";
    ensure!(args.servers.is_none(), "`--servers` is the number of servers, {launcher}");
    ensure!(args.workers.is_none(), "`--workers` is the number of trainers, {launcher}");
    let is_first = environment.trainer_id == Some(0);
    if is_first {
        check_writable(&args.output)?;
    }
    let threads = args.threads.unwrap_or_else(|| launched_threads(environment));
    let job = Job { threads, ..args.job() };
    if !member::run_launched(&job, environment)? {
        return Ok(Outcome::Done);
    }
    let source = Source::new(args.seed, args.rows, threads)?;
    let held_out = held_out(args, &source, threads);
    drop(source);
    finish(args, &args.output.join(MODEL), &held_out, threads)
}

/// This trainer's share of the processors of its machine.
fn launched_threads(environment: &Environment) -> usize {
    let host = |endpoint: &str| endpoint.rsplit_once(':').map(|(host, _)| host.to_owned());
    let endpoints = &environment.trainer_endpoints;
    let own = environment.trainer_id.and_then(|id| host(endpoints.get(id as usize)?));
    let beside = endpoints.iter().filter(|endpoint| host(endpoint) == own).count();
    let trainers = match (own, environment.trainers) {
        (Some(_), _) => beside,
        (None, trainers) => trainers.unwrap_or(1) as usize,
    };
    (available_cores() / trainers.max(1)).max(1)
}

/// Evaluates the saved model, and says what to do with it.
fn finish(args: &Args, prefix: &Path, held_out: &Samples, threads: usize) -> Result<Outcome> {
    save_sample(&args.output, held_out)?;
    let clicks = training::predict(prefix, held_out, threads)?;
    report(&mut std::io::stdout().lock(), held_out, &clicks, prefix)?;
    args.say(&next_steps(&args.output, prefix));
    Ok(Outcome::Done)
}

/// Samples that come after those of training.
fn held_out(args: &Args, source: &Source, threads: usize) -> Samples {
    let count = args.samples as u64;
    source.samples(count..count + (count / 10).max(1), threads)
}

/// Fails now rather than after training; leaves nothing behind.
fn check_writable(folder: &Path) -> Result<()> {
    let tried = io::FileSet::begin(folder);
    tried.with_context(|| format!("cannot write to the output folder `{}`", folder.display()))?;
    Ok(())
}

/// Says where an unfinished model is: away from a finished one that may be there.
fn interrupted(args: &Args, done: u64) -> Outcome {
    if done == 0 {
        terminal::say("interrupted before the first step; nothing is saved");
    } else {
        let prefix = args.output.join(INTERRUPTED).join(MODEL);
        terminal::say(&format!(
            "interrupted after {} samples; the model as it is then: {}",
            grouped(done),
            prefix.display()
        ));
    }
    Outcome::Interrupted
}

/// Saves the model at a path as `predict` takes it.
fn save(prefix: &Path, model: &CtrDnn, scope: &Scope) -> Result<()> {
    let feeds = model.prediction_feeds();
    io::save_inference_model(prefix, &feeds, &[&model.prediction], &model.main, scope)
        .context("cannot save the model")
}

/// Saves lines to try the model with.
fn save_sample(folder: &Path, samples: &Samples) -> Result<()> {
    let lines = (0..samples.len().min(SAMPLE_LINES)).map(|row| samples.slot_line(row) + "\n");
    let text: String = lines.collect();
    io::write_file(sample_path(folder), |out| out.write_all(text.as_bytes()))?;
    Ok(())
}

fn sample_path(folder: &Path) -> PathBuf {
    folder.join("sample.txt")
}

/// Prints the result.
fn report(
    out: &mut impl Write,
    held_out: &Samples,
    clicks: &[f32],
    prefix: &Path,
) -> std::io::Result<()> {
    let best = &held_out.probabilities;
    let auc = |scores: &[f32]| match metrics::auc(&held_out.labels, scores) {
        Some(auc) => format!("{auc:.4}"),
        None => "undefined: all labels are the same".to_owned(),
    };
    let loss = |scores: &[f32]| metrics::log_loss(&held_out.labels, scores);
    writeln!(out, "held-out samples  {}", grouped(held_out.len() as u64))?;
    writeln!(out, "AUC               {}  (best possible {})", auc(clicks), auc(best))?;
    writeln!(out, "log loss          {:.4}  (best possible {:.4})", loss(clicks), loss(best))?;
    writeln!(out, "model             {}", prefix.display())
}

/// Commands that work as printed, in this shell and folder.
fn next_steps(folder: &Path, prefix: &Path) -> String {
    // Installed with Python, this runs inside its interpreter, and the command is on the path.
    let is_own = |name: &String| Path::new(name).file_stem().is_some_and(|stem| stem == "bireme");
    let own = std::env::args().next().filter(is_own);
    let bireme = shell(own.as_deref().unwrap_or("bireme"));
    let quoted = |path: &Path| shell(&path.to_string_lossy());
    let (model, sample) = (quoted(prefix), quoted(&sample_path(folder)));
    format!(
        "\nNext:\n  {bireme} inspect {model}\n  {bireme} predict {model} < {sample}\n  \
         {bireme} train --help"
    )
}
