//! `bireme train`: the built-in demo, from data to a saved model.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};
use bireme_engine::{Executor, Place, Scope, io};

use super::{MAX_THREADS, Outcome, available_cores, positive_real, up_to};
use crate::demo::data::{Samples, Source};
use crate::demo::metrics;
use crate::demo::model::{Config, CtrDnn};
use crate::demo::training::{self, Parallel, Schedule};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::rows::MAX_ROWS;
use crate::terminal;
use crate::units::{grouped, plural, shell};

/// Lines in the sample file that `predict` can be tried with.
const SAMPLE_LINES: usize = 100;
/// Samples, and rows of the table: a hundred million take some 10 GiB of memory.
const MAX_SIZE: usize = 100_000_000;
const MAX_EPOCHS: usize = 1_000_000;

/// Train a click-through-rate model on generated data
///
/// Generates Criteo-like click data (26 slots of skewed ids, 13 dense features, labels from a
/// hidden model), trains the CTR-DNN of PaddleRec on it, evaluates it on data it has not seen, and
/// saves it. Needs no arguments and takes less than a minute on two cores. Ctrl-C ends training
/// after the current step and saves what there is in the folder `interrupted` of the output folder.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Samples to train on; a tenth as many are held out for evaluation
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = up_to::<MAX_SIZE>)]
    samples: usize,
    /// Times to go through the samples
    #[arg(long, value_name = "N", default_value = "1", value_parser = up_to::<MAX_EPOCHS>)]
    epochs: usize,
    /// Samples in one step
    #[arg(long, value_name = "N", default_value = "512", value_parser = up_to::<MAX_ROWS>)]
    batch_size: usize,
    /// Threads to train with [default: all processors]
    #[arg(long, value_name = "N", value_parser = up_to::<MAX_THREADS>)]
    threads: Option<usize>,
    /// How the threads share the work
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
    #[arg(long, short, value_name = "FOLDER", default_value = "bireme-demo")]
    output: PathBuf,
    /// Stop at the first op that produces NaN or infinity, and name it
    #[arg(long)]
    check_finite: bool,
    /// Show no progress and no advice
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    check_writable(&args.output)?;
    let interrupt = Interrupt::install()?;
    let threads = args.threads.unwrap_or_else(available_cores);
    let say = |text: String| {
        if !args.quiet {
            terminal::say(&text);
        }
    };

    let started = Instant::now();
    let source = Source::new(args.seed, args.rows, threads)?;
    let count = args.samples as u64;
    let train = source.samples(0..count, threads);
    let held_out = source.samples(count..count + (count / 10).max(1), threads);
    drop(source);
    say(format!(
        "generated {} samples and {} held-out ones in {:.1}s",
        grouped(train.len() as u64),
        grouped(held_out.len() as u64),
        started.elapsed().as_secs_f64()
    ));

    let config = Config { rows: args.rows, learning_rate: args.learning_rate, seed: args.seed };
    let model = CtrDnn::build(config)?;
    let scope = Scope::new();
    Executor::new(Place::Cpu)?.with_scope(scope.clone()).run(&model.startup, &[], &[])?;
    let schedule = Schedule {
        epochs: args.epochs,
        batch_size: args.batch_size,
        threads,
        parallel: args.parallel,
        check_finite: args.check_finite,
    };
    say(format!("training on {}, batches of {}", plural(threads, "thread"), args.batch_size));
    let progress = Mutex::new(Progress::new(count * args.epochs as u64, args.quiet));
    let trained = training::train(&model, &scope, &train, schedule, &progress, &interrupt);
    let mut progress = progress.into_inner().expect("progress does not panic");
    progress.finish();
    trained?;

    if interrupt.is_raised() {
        return interrupted(args, &model, &scope, progress.done());
    }
    let prefix = save(&args.output, &model, &scope, Some(&held_out))?;
    let clicks = training::predict(&model, &scope, &held_out, threads)?;
    report(&mut std::io::stdout().lock(), &held_out, &clicks, &prefix)?;
    say(next_steps(&args.output, &prefix));
    Ok(Outcome::Done)
}

/// Fails now rather than after training; leaves nothing behind.
fn check_writable(folder: &Path) -> Result<()> {
    let tried = io::FileSet::begin(folder);
    tried.with_context(|| format!("cannot write to the output folder `{}`", folder.display()))?;
    Ok(())
}

/// Saves a model that is not finished, away from a finished one that may be there.
fn interrupted(args: &Args, model: &CtrDnn, scope: &Scope, done: u64) -> Result<Outcome> {
    if done == 0 {
        terminal::say("interrupted before the first step; nothing is saved");
    } else {
        let prefix = save(&args.output.join("interrupted"), model, scope, None)?;
        terminal::say(&format!(
            "interrupted after {} samples; the model as it is then: {}",
            grouped(done),
            prefix.display()
        ));
    }
    Ok(Outcome::Interrupted)
}

/// Saves the model, and lines to try it with; returns the model's path as `predict` takes it.
fn save(
    folder: &Path,
    model: &CtrDnn,
    scope: &Scope,
    held_out: Option<&Samples>,
) -> Result<PathBuf> {
    let prefix = folder.join("model");
    let feeds = model.prediction_feeds();
    io::save_inference_model(&prefix, &feeds, &[&model.prediction], &model.main, scope)
        .context("cannot save the model")?;
    if let Some(samples) = held_out {
        let lines = (0..samples.len().min(SAMPLE_LINES)).map(|row| samples.slot_line(row) + "\n");
        let path = sample_path(folder);
        let text: String = lines.collect();
        io::write_file(&path, |out| out.write_all(text.as_bytes()))?;
    }
    Ok(prefix)
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
