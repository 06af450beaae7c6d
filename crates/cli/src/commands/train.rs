//! `bireme train`: the built-in demo, from data to a saved model.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "results for stdout, advice for the terminal"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};
use bireme_engine::{Executor, Place, Scope, io};

use super::{Outcome, available_cores, positive, positive_real};
use crate::demo::data::{Samples, Source};
use crate::demo::metrics;
use crate::demo::model::{Config, CtrDnn};
use crate::demo::training::{self, Parallel, Schedule};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::units::{grouped, plural, shell};

/// Lines in the sample file that `predict` can be tried with.
const SAMPLE_LINES: usize = 100;

/// Train a click-through-rate model on generated data
///
/// Generates Criteo-like click data (26 slots of skewed ids, 13 dense features, labels from a
/// hidden model), trains the CTR-DNN of PaddleRec on it, evaluates it on data it has not seen, and
/// saves it. Needs no arguments and takes less than a minute on two cores. Ctrl-C ends training
/// after the current step and saves what there is.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Samples to train on; a tenth as many are held out for evaluation
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = positive)]
    samples: usize,
    /// Times to go through the samples
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    epochs: usize,
    /// Samples in one step
    #[arg(long, value_name = "N", default_value = "512", value_parser = positive)]
    batch_size: usize,
    /// Threads to train with [default: all processors]
    #[arg(long, value_name = "N", value_parser = positive)]
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
    #[arg(long, value_name = "N", default_value = "1000001", value_parser = positive)]
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
            eprintln!("{text}");
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
    report(&held_out, &clicks, &prefix);
    say(next_steps(&args.output, &prefix));
    Ok(Outcome::Done)
}

/// Fails now rather than after training.
fn check_writable(folder: &Path) -> Result<()> {
    let refused = || format!("cannot write to the output folder `{}`", folder.display());
    let existed = folder.exists();
    fs::create_dir_all(folder).with_context(refused)?;
    let probe = folder.join(".bireme-probe");
    let written = fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe));
    if written.is_err() && !existed {
        // Made by us a moment ago, so it is empty and of no use to anybody.
        fs::remove_dir(folder).ok();
    }
    written.with_context(refused)
}

fn interrupted(args: &Args, model: &CtrDnn, scope: &Scope, done: u64) -> Result<Outcome> {
    if done == 0 {
        eprintln!("interrupted before the first step; nothing is saved");
    } else {
        let prefix = save(&args.output, model, scope, None)?;
        eprintln!(
            "interrupted after {} samples; the model as it is then: {}",
            grouped(done),
            prefix.display()
        );
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
        fs::write(&path, lines.collect::<String>())
            .with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(prefix)
}

fn sample_path(folder: &Path) -> PathBuf {
    folder.join("sample.txt")
}

/// Prints the result.
fn report(held_out: &Samples, clicks: &[f32], prefix: &Path) {
    let best = &held_out.probabilities;
    let auc = |scores: &[f32]| match metrics::auc(&held_out.labels, scores) {
        Some(auc) => format!("{auc:.4}"),
        None => "undefined: all labels are the same".to_owned(),
    };
    println!("held-out samples  {}", grouped(held_out.len() as u64));
    println!("AUC               {}  (best possible {})", auc(clicks), auc(best));
    println!(
        "log loss          {:.4}  (best possible {:.4})",
        metrics::log_loss(&held_out.labels, clicks),
        metrics::log_loss(&held_out.labels, best)
    );
    println!("model             {}", prefix.display());
}

/// Commands that work as printed, in this shell and folder.
fn next_steps(folder: &Path, prefix: &Path) -> String {
    let bireme = shell(&std::env::args().next().unwrap_or_else(|| "bireme".to_owned()));
    let quoted = |path: &Path| shell(&path.to_string_lossy());
    let (model, sample) = (quoted(prefix), quoted(&sample_path(folder)));
    format!(
        "\nNext:\n  {bireme} inspect {model}\n  {bireme} predict {model} < {sample}\n  \
         {bireme} train --help"
    )
}
