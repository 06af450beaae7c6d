//! The loop of `bireme train`: batches go through a training step until the samples are used up.
//!
//! One worker whose executor splits each batch over threads, or several workers that take batches
//! in turn and share the parameters; the loop is the same.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result};
use bireme_engine::{Executor, Place, Scope, io};

use super::batch::Batch;
use super::data::Samples;
use super::model::CtrDnn;
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// How several threads train one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Parallel {
    /// Each step's batch is split over the threads: the same result every time
    Batch,
    /// Each thread trains on batches of its own and updates the shared parameters at once:
    /// not repeatable to the bit
    Threads,
}

/// How to train.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) epochs: usize,
    pub(crate) batch_size: usize,
    pub(crate) threads: usize,
    pub(crate) parallel: Parallel,
    /// Whether every op's output is checked for NaN and infinity.
    pub(crate) check_finite: bool,
}

/// Trains until the samples are used up or `interrupt` is raised.
pub(crate) fn train(
    model: &CtrDnn,
    scope: &Scope,
    samples: &Samples,
    schedule: Schedule,
    progress: &Mutex<Progress>,
    interrupt: &Interrupt,
) -> Result<()> {
    let (workers, split) = match schedule.parallel {
        Parallel::Batch => (1, schedule.threads),
        Parallel::Threads => (schedule.threads, 1),
    };
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let work = || {
        let executor = Executor::new(Place::Cpu)?
            .with_scope(scope.clone())
            .threads(split)
            .hogwild(workers > 1)
            .check_finite(schedule.check_finite);
        let stop = || interrupt.is_raised() || failed.load(Ordering::Relaxed);
        let done = run_steps(model, executor, samples, schedule, &next, stop, progress);
        if done.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        done
    };
    std::thread::scope(|threads| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(threads, work);
        let spawned = (1..workers).map(spawn).collect::<std::io::Result<Vec<_>>>();
        let spawned = spawned.inspect_err(|_| failed.store(true, Ordering::Relaxed));
        let spawned = spawned.context("cannot start a thread: use fewer with `--threads`")?;
        let mine = work();
        let others = spawned.into_iter().map(|thread| thread.join().expect("steps do not panic"));
        others.fold(mine, Result::and)
    })
}

/// Takes batches until there are no more.
fn run_steps(
    model: &CtrDnn,
    executor: Executor,
    samples: &Samples,
    schedule: Schedule,
    next: &AtomicU64,
    stop: impl Fn() -> bool,
    progress: &Mutex<Progress>,
) -> Result<()> {
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let fetches = [model.loss.as_str(), &model.auc];
    // Counts that several threads change at once would be wrong; each thread's own are a fair
    // sample.
    let private: Vec<&str> = match schedule.parallel {
        Parallel::Batch => Vec::new(),
        Parallel::Threads => model.auc_counts.iter().map(String::as_str).collect(),
    };
    let mut step = executor.prepare_private(&model.main, &feeds, &fetches, &private)?;
    let per_epoch = samples.len().div_ceil(schedule.batch_size);
    let batches = per_epoch as u64 * schedule.epochs as u64;
    let mut batch = Batch::default();
    while !stop() {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= batches {
            break;
        }
        let first = (index % per_epoch as u64) as usize * schedule.batch_size;
        let rows = schedule.batch_size.min(samples.len() - first);
        batch.fill(samples, first, rows);
        step.run(&batch.tensors())?;
        let (loss, auc) = (step.fetched(0).to_f64_vec()[0], step.fetched(1).to_f64_vec()[0]);
        progress.lock().expect("progress does not panic").step(rows as u64, loss, auc);
    }
    Ok(())
}

/// The probability of a click for each sample, by the model that was saved at `prefix`.
pub(crate) fn predict(prefix: &Path, samples: &Samples, threads: usize) -> Result<Vec<f32>> {
    const ROWS: usize = 2048;
    let scope = Scope::new();
    let model = io::load_inference_model(prefix, &scope).context("cannot read the model again")?;
    let executor = Executor::new(Place::Cpu)?.with_scope(scope).threads(threads);
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let fetches: Vec<&str> = model.fetches.iter().map(String::as_str).collect();
    let mut step = executor.prepare(&model.program, &feeds, &fetches)?;
    let mut clicks = Vec::with_capacity(samples.len());
    let mut batch = Batch::default();
    for first in (0..samples.len()).step_by(ROWS) {
        batch.fill(samples, first, ROWS.min(samples.len() - first));
        // The label comes first among the tensors, and prediction does not take it.
        step.run(&batch.tensors()[1..])?;
        let both = step.fetched(0).as_slice::<f32>()?;
        clicks.extend(both.iter().skip(1).step_by(2));
    }
    Ok(clicks)
}
