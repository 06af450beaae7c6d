//! `bireme train` without `-m`: a built-in configuration (`demo.yaml`), which the flags change, on
//! the road of every other.
//!
//! Only its samples are its own: each trainer generates its part in memory, so that there is nothing
//! to download and nothing to leave behind.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use bireme_data::parse::LineWriter;
use bireme_engine::io;
use bireme_fleet::Environment;
use bireme_fleet::shell::quoted;
use bireme_launch::arguments::Flavor;
use bireme_rec::run::{self, OnStep, Options};
use bireme_rec::zoo::criteo::{Part, Source, Truth};
use bireme_rec::{Config, Error, Log};

use super::super::{Host, Outcome, available_cores, yaml};
use super::{Args, Parallel, Precision};
use crate::device::{self, Choice};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::terminal::say;
use crate::units::{grouped, plural};

const CONFIG: &str = include_str!("demo.yaml");
/// The model's name in the output folder.
const MODEL: &str = "model";
/// The folder of a training that has not ended, in the output folder.
const UNFINISHED: &str = "unfinished";
/// What the run calls its model for prediction.
const TRAINED: &str = "rec_inference";
/// Lines in the file that `predict` can be tried with.
const SAMPLE_LINES: u64 = 100;
const DEFAULT_SERVERS: usize = 1;
const DEFAULT_WORKERS: usize = 2;

/// Trains: in this process, on a cluster of this machine, or as a process of a launcher's job.
pub(super) fn run(args: &Args, host: &Host) -> Result<Outcome> {
    if let Some(option) = args.source.options.first() {
        bail!(
            "`-o {option}` changes a value of a YAML file: name one with `-m` (the folder of the \
             demo is `--output`)"
        );
    }
    let about_files = "`--skip_bad_lines` is about data files: use `-m`";
    ensure!(args.source.skip_bad_lines.is_none(), "{about_files}");
    let environment = Environment::read()?;
    if !is_local(args) && is_launched(&environment) {
        return launched(args, &environment);
    }
    check(args, args.workers.unwrap_or(DEFAULT_WORKERS))?;
    check_writable(&args.output)?;
    let unfinished = args.output.join(UNFINISHED);
    let is_new = !unfinished.exists();
    let trained = match is_local(args) {
        true => local(args),
        false => cluster(args, host),
    };
    if !matches!(trained, Ok(Outcome::Done)) && is_new && !has_checkpoint(args) {
        // There is nothing that a training could resume from; it stays where it cannot be removed.
        fs::remove_dir_all(&unfinished).ok();
        fs::remove_dir(&args.output).ok();
    }
    trained
}

/// Whether this process trains alone; on a card it does unless somebody speaks of a cluster.
fn is_local(args: &Args) -> bool {
    let speaks_of_cluster =
        args.member || args.servers.is_some() || args.workers.is_some() || args.mode.is_some();
    args.local || args.servers == Some(0) || is_on_card(args) && !speaks_of_cluster
}

fn is_on_card(args: &Args) -> bool {
    matches!(args.device, Some(Choice::Card(_)))
}

fn threads(args: &Args) -> usize {
    args.threads.unwrap_or_else(available_cores)
}

/// Refuses what does not go together.
fn check(args: &Args, trainers: usize) -> Result<()> {
    if is_on_card(args) {
        let threads = "is about threads of the host: a card trains one batch at a time";
        ensure!(args.parallel == Parallel::Batch, "`--parallel threads` {threads}");
    }
    if is_local(args) {
        let only = "is about trainers of a cluster, which needs a server: raise `--servers`";
        ensure!(args.workers.is_none(), "`--workers` {only}");
        ensure!(args.mode.is_none(), "`--mode` {only}");
        return Ok(());
    }
    if args.parallel == Parallel::Threads {
        bail!(
            "`--parallel threads` is about the threads of one process: add `--local`, or use more \
             `--workers`"
        );
    }
    let Args { batch_size, samples, .. } = args;
    ensure!(
        *batch_size >= trainers,
        "a batch of {batch_size} is too small for {trainers} trainers: raise `--batch-size` or use \
         fewer `--workers`"
    );
    ensure!(
        *samples >= trainers,
        "{samples} samples are too few for {trainers} trainers: raise `--samples` or use fewer \
         `--workers`"
    );
    Ok(())
}

/// The configuration of each of these trainers, with so many threads.
fn configuration(args: &Args, trainers: usize, threads: usize) -> Result<Config> {
    let folder = args.output.join(UNFINISHED);
    let (folder, last) = (folder.display(), args.epochs - 1);
    // YAML takes `1` for a whole number.
    let rate = match args.learning_rate.to_string() {
        rate if rate.contains('.') => rate,
        rate => rate + ".0",
    };
    let mut options = vec![
        format!("runner.train_batch_size={}", args.batch_size / trainers),
        format!("runner.epochs={}", args.epochs),
        format!("runner.thread_num={threads}"),
        format!("runner.seed={}", args.seed() & i64::MAX as u64),
        format!("runner.model_save_path={folder}"),
        format!("runner.infer_load_path={folder}"),
        format!("runner.infer_start_epoch={last}"),
        format!("runner.infer_end_epoch={}", args.epochs),
        format!("hyper_parameters.optimizer.learning_rate={rate}"),
        format!("hyper_parameters.sparse_feature_number={}", args.rows),
    ];
    options.extend(args.precision.map(Precision::option));
    if args.parallel == Parallel::Threads {
        options.push("runner.parallel=threads".to_owned());
    }
    if !is_local(args) {
        options.push(format!("runner.sync_mode={}", args.mode.unwrap_or_default().name()));
    }
    let mut config = Config::parse(Path::new("demo.yaml"), CONFIG, &options)?;
    if let Some(choice) = args.device {
        config.set_switch("runner.use_gpu", matches!(choice, Choice::Card(_)));
    }
    Ok(config)
}

fn has_checkpoint(args: &Args) -> bool {
    configuration(args, 1, 1).is_ok_and(|config| run::last_checkpoint(&config).is_some())
}

/// Trains in this process.
fn local(args: &Args) -> Result<Outcome> {
    let (threads, interrupt) = (threads(args), Interrupt::install()?);
    match train(args, &Environment::default(), threads, interrupt)? {
        Outcome::Done => finish(args, threads, interrupt),
        other => Ok(other),
    }
}

/// Trains with servers and trainers on this machine: they are a job of the launcher, and each runs
/// this command as [`launched`] does.
fn cluster(args: &Args, host: &Host) -> Result<Outcome> {
    let servers = args.servers.unwrap_or(DEFAULT_SERVERS);
    let workers = args.workers.unwrap_or(DEFAULT_WORKERS);
    let logs = tempfile::Builder::new().prefix("bireme-train-").tempdir();
    let logs = logs.context("cannot make a folder for the logs of the processes")?;
    let mut words = vec![
        format!("--server_num={servers}").into(),
        format!("--worker_num={workers}").into(),
        format!("--log_level={}", if args.quiet { "ERROR" } else { "WARNING" }).into(),
        "--log_dir".into(),
        logs.path().into(),
    ];
    if let Some(Choice::Card(Some(number))) = args.device {
        words.push(format!("--gpus={number}").into());
    }
    words.push("bireme".into());
    words.extend(for_members(args, workers));
    let launcher = bireme_launch::Host {
        program: "bireme train".to_owned(),
        python: host.python.clone(),
        bireme: host.command()?,
        flavor: Flavor::Fleetrun,
        one_display: true,
    };
    match bireme_launch::run(&words, &launcher) {
        0 => finish(args, threads(args), Interrupt::install()?),
        // SIGHUP, SIGINT or SIGTERM: somebody stopped it.
        code @ (129 | 130 | 143) => {
            yaml::say_interrupted(&configuration(args, workers, 1)?);
            Ok(Outcome::Ended(code))
        }
        code => {
            // The launcher has named one of them.
            let _kept = logs.keep();
            Ok(Outcome::Ended(code))
        }
    }
}

/// The arguments of the processes of a cluster.
fn for_members(args: &Args, workers: usize) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["train", "--member"].map(OsString::from).to_vec();
    for (flag, value) in [
        ("--samples", args.samples.to_string()),
        ("--epochs", args.epochs.to_string()),
        ("--batch-size", args.batch_size.to_string()),
        ("--threads", (threads(args) / workers).max(1).to_string()),
        ("--learning-rate", args.learning_rate.to_string()),
        ("--seed", args.seed().to_string()),
        ("--rows", args.rows.to_string()),
        ("--mode", args.mode.unwrap_or_default().name()),
    ] {
        words.extend([flag.into(), value.into()]);
    }
    words.extend(["--output".into(), args.output.clone().into_os_string()]);
    for (flag, is_set) in
        [("--check-finite", args.check_finite), ("--quiet", args.quiet), ("--resume", args.resume)]
    {
        words.extend(is_set.then(|| flag.into()));
    }
    let precision = args.precision.map(|precision| format!("--precision={}", precision.name()));
    words.extend(precision.map(OsString::from));
    // Which card a trainer takes is the launcher's choice.
    words.extend(is_on_card(args).then(|| "--device=gpu".into()));
    words
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
    check(args, trainers(environment))?;
    let ends_here = !args.member && environment.trainer_id == Some(0);
    if ends_here {
        check_writable(&args.output)?;
    }
    bireme_fleet::log_to_stderr(environment.rpc.log.as_deref());
    let threads = args.threads.unwrap_or_else(|| launched_threads(environment));
    let interrupt = Interrupt::install()?;
    match train(args, environment, threads, interrupt)? {
        Outcome::Done if ends_here => finish(args, threads, interrupt),
        other => Ok(other),
    }
}

fn trainers(environment: &Environment) -> usize {
    environment.trainers.unwrap_or(1).max(1) as usize
}

/// This trainer's share of the processors of its machine.
fn launched_threads(environment: &Environment) -> usize {
    let host = |endpoint: &str| endpoint.rsplit_once(':').map(|(host, _)| host.to_owned());
    let endpoints = &environment.trainer_endpoints;
    let own = environment.trainer_id.and_then(|id| host(endpoints.get(id as usize)?));
    let beside = endpoints.iter().filter(|endpoint| host(endpoint) == own).count();
    let trainers = if own.is_some() { beside } else { trainers(environment) };
    (available_cores() / trainers.max(1)).max(1)
}

/// Does the part of this process: that of a server, or of a trainer with its samples.
fn train(
    args: &Args,
    environment: &Environment,
    threads: usize,
    interrupt: Interrupt,
) -> Result<Outcome> {
    interrupt.end_within(yaml::LAST_WORDS)?;
    let trainers = trainers(environment);
    let mut config = configuration(args, trainers, threads)?;
    device::choose(&mut config, args.device);
    let mut options = Options {
        device: device::card_of(&config, args.device, environment)?,
        on_memory: Some(device::on_memory(args.quiet)),
        resume: args.resume,
        check_finite: args.check_finite,
        interrupt: Some(yaml::asked(interrupt)),
        log: Log::stderr().quiet(),
        ..Options::default()
    };
    let progress = Arc::new(Mutex::new(None));
    if environment.training_role.as_deref() != Some("PSERVER") {
        let rank = environment.trainer_id.unwrap_or(0) as usize;
        let source = Arc::new(Source::new(args.seed(), args.rows)?);
        let part = Part::all(source, 0..args.samples as u64);
        options.input = Some(Arc::new(part.of(rank, trainers, args.batch_size / trainers)));
        if rank == 0 {
            let start = announcement(args, environment, threads);
            options.on_step = Some(follow(&progress, start, args, trainers as u64));
        }
    }
    let trained = run::train(&config, environment, &options);
    if let Some(progress) = progress.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        progress.finish();
    }
    match trained {
        Err(Error::Interrupted) => {
            if !args.member {
                yaml::say_interrupted(&config);
            }
            Ok(Outcome::Interrupted)
        }
        trained => trained.map(|_| Outcome::Done).map_err(Into::into),
    }
}

/// Who trains, and how.
fn announcement(args: &Args, environment: &Environment, threads: usize) -> String {
    let trainers = trainers(environment);
    let servers = environment.servers.as_ref().map_or(0, Vec::len);
    let who = match (servers, trainers) {
        (0, 1) if is_on_card(args) && !device::is_host_forced() => "on a GPU".to_owned(),
        (0, 1) => format!("on {}", plural(threads, "thread")),
        (0, _) => format!("with {}", plural(trainers, "trainer")),
        _ => format!(
            "with {} and {}, mode {}",
            plural(servers, "server"),
            plural(trainers, "trainer"),
            args.mode.unwrap_or_default().name()
        ),
    };
    format!("training {who}, batches of {}", args.batch_size / trainers * trainers)
}

/// Shows the steps of this trainer, which stand for those of all: they have as many samples.
fn follow(
    progress: &Arc<Mutex<Option<Progress>>>,
    start: String,
    args: &Args,
    trainers: u64,
) -> OnStep {
    let (progress, quiet) = (Arc::clone(progress), args.quiet);
    let total = args.samples as u64 * args.epochs as u64;
    Arc::new(move |step| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        // Made when training begins, so that preparations do not count.
        let progress = progress.get_or_insert_with(|| {
            if !quiet {
                say(&start);
            }
            Progress::new(total, quiet)
        });
        if step.samples > 0 {
            progress.step(step.samples * trainers, step.loss, step.metric);
        }
    })
}

/// Evaluates the model, puts it into its place, and says what to do with it.
fn finish(args: &Args, threads: usize, interrupt: Interrupt) -> Result<Outcome> {
    let source = Arc::new(Source::new(args.seed(), args.rows)?);
    let held_out = held_out(args);
    let mut config = configuration(args, 1, threads)?;
    device::choose(&mut config, args.device);
    let options = Options {
        device: device::card_of(&config, args.device, &Environment::default())?,
        interrupt: Some(yaml::asked(interrupt)),
        input: Some(Arc::new(Part::all(Arc::clone(&source), held_out.clone()))),
        log: Log::stderr().quiet(),
        ..Options::default()
    };
    let evaluation = run::infer(&config, &options).context("cannot evaluate the model")?.pop();
    let evaluation = evaluation.context("there was no epoch to evaluate")?;
    let prefix = args.output.join(MODEL);
    keep(args, &prefix).with_context(|| format!("cannot save the model `{}`", prefix.display()))?;
    save_sample(&args.output, &source, held_out.clone())?;
    let auc = evaluation.metrics.get("auc").copied().unwrap_or(f64::NAN);
    let truth = source.truth(held_out);
    report(&mut std::io::stdout().lock(), &truth, (auc, evaluation.loss), &prefix)?;
    if !args.quiet {
        say(&next_steps(&args.output, &prefix));
    }
    Ok(Outcome::Done)
}

/// Samples that come after those of training.
fn held_out(args: &Args) -> Range<u64> {
    let count = args.samples as u64;
    count..count + (count / 10).max(1)
}

/// Moves what a training leaves behind to the output folder: the model and the curves.
fn keep(args: &Args, prefix: &Path) -> std::io::Result<()> {
    let unfinished = args.output.join(UNFINISHED);
    let trained = unfinished.join((args.epochs - 1).to_string()).join(TRAINED);
    for extension in ["pdiparams", "pdmodel"] {
        fs::rename(trained.with_extension(extension), prefix.with_extension(extension))?;
    }
    let curves = args.output.join("run");
    if curves.exists() {
        fs::remove_dir_all(&curves)?;
    }
    fs::rename(unfinished.join("run"), curves)?;
    fs::remove_dir_all(unfinished)
}

/// Fails now rather than after training; leaves nothing behind.
fn check_writable(folder: &Path) -> Result<()> {
    let tried = io::FileSet::begin(folder);
    tried.with_context(|| format!("cannot write to the output folder `{}`", folder.display()))?;
    Ok(())
}

/// Saves lines to try the model with.
fn save_sample(folder: &Path, source: &Source, held_out: Range<u64>) -> Result<()> {
    let samples = source.samples(held_out.start..held_out.end.min(held_out.start + SAMPLE_LINES));
    let (model, _) =
        run::build(&Config::parse(Path::new("demo.yaml"), CONFIG, &[])?, &Log::silent())?;
    let writer = LineWriter::new(&model.format, &model.slots)?;
    let mut text = Vec::new();
    (0..samples.len()).for_each(|row| writer.write(&samples, row, &mut text));
    io::write_file(sample_path(folder), |out| out.write_all(&text))?;
    Ok(())
}

fn sample_path(folder: &Path) -> PathBuf {
    folder.join("sample.txt")
}

/// Prints the AUC and the log loss of the model beside those of the hidden model.
fn report(
    out: &mut impl Write,
    truth: &Truth,
    (auc, loss): (f64, f64),
    prefix: &Path,
) -> std::io::Result<()> {
    let Truth { labels, chances } = truth;
    let auc = match run::auc_of(labels, chances) {
        Some(best) => format!("{auc:.4}  (best possible {best:.4})"),
        None => "undefined: all labels are the same".to_owned(),
    };
    writeln!(out, "held-out samples  {}", grouped(labels.len() as u64))?;
    writeln!(out, "AUC               {auc}")?;
    writeln!(out, "log loss          {loss:.4}  (best possible {:.4})", log_loss(truth))?;
    writeln!(out, "model             {}", prefix.display())
}

/// The mean negative log likelihood of the labels.
fn log_loss(Truth { labels, chances }: &Truth) -> f64 {
    let of_label = |(label, chance): (&u8, &f32)| match label {
        1 => -f64::from(*chance).ln(),
        _ => -(1.0 - f64::from(*chance)).ln(),
    };
    labels.iter().zip(chances).map(of_label).sum::<f64>() / labels.len() as f64
}

/// Commands that work as printed, in this shell and folder.
fn next_steps(folder: &Path, prefix: &Path) -> String {
    // Installed with Python, this runs inside its interpreter, and the command is on the path.
    let is_own = |name: &String| Path::new(name).file_stem().is_some_and(|stem| stem == "bireme");
    let own = std::env::args().next().filter(is_own);
    let bireme = quoted(own.as_deref().unwrap_or("bireme"));
    let word = |path: &Path| quoted(&path.to_string_lossy());
    let (model, sample, folder) = (word(prefix), word(&sample_path(folder)), word(folder));
    format!(
        "\nNext:\n  {bireme} inspect {model}\n  {bireme} predict {model} < {sample}\n  \
         {bireme} report {folder}\n  {bireme} train --help"
    )
}
