//! One process of the demo's cluster: a server or a trainer, as its environment says.
//!
//! What it does is what any program does that trains with a `Fleet`; all that is special here is
//! the line to the process that started it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bireme_engine::{Executor, Place, Step};
use bireme_fleet::{Environment, Fleet, Mode, RoleMaker, Strategy};

use super::batch::Batch;
use super::data::{Samples, Source};
use super::model::{Config, CtrDnn, Forward, optimizer};
use super::share::Share;
use crate::cluster::brake::End;
use crate::cluster::member::Line;
use crate::cluster::message::{Report, Trained};

/// Time between two reports of a trainer.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// What a member has to do.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) config: Config,
    pub(crate) mode: Mode,
    pub(crate) samples: usize,
    pub(crate) epochs: usize,
    /// Samples in one step, of all trainers.
    pub(crate) batch_size: usize,
    /// Threads of one trainer.
    pub(crate) threads: usize,
    pub(crate) check_finite: bool,
    /// Where the model goes.
    pub(crate) finished: PathBuf,
    /// Where it goes when training is stopped.
    pub(crate) interrupted: PathBuf,
}

/// Does what the environment says until the end of training.
///
/// # Errors
/// When something fails, or another member is lost.
pub(crate) fn run(job: &Job) -> Result<()> {
    let line = Line::open()?;
    let environment = Environment::read()?;
    bireme_fleet::log_to_stderr(environment.rpc.log.as_deref());
    let role = RoleMaker::from_environment(&environment)?;
    // The cluster is told the port; until then the list of servers holds names only.
    take_part(Fleet::init(role, &environment)?.bind("127.0.0.1:0"), job, &line)
}

/// Does what the environment of a launcher says; returns whether this was trainer 0.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_launched(job: &Job, environment: &Environment) -> Result<bool> {
    bireme_fleet::log_to_stderr(environment.rpc.log.as_deref());
    let role = RoleMaker::from_environment(environment)?;
    let fleet = Fleet::init(role, environment)?;
    let is_first = fleet.is_first_worker();
    let total = (job.samples / fleet.worker_num() as usize * job.epochs) as u64;
    take_part(fleet, job, &Line::to_launcher(environment, is_first.then_some(total)))?;
    Ok(is_first)
}

fn take_part(mut fleet: Fleet, job: &Job, line: &Line) -> Result<()> {
    let forward = Forward::build(job.config)?;
    fleet.minimize(&forward.loss, &optimizer(job.config), &Strategy::new(job.mode))?;
    let done = if fleet.is_server() {
        serve(&mut fleet, line)
    } else {
        train(&mut fleet, &forward.into_model(), job, line)
    };
    line.finish();
    done
}

fn serve(fleet: &mut Fleet, line: &Line) -> Result<()> {
    fleet.init_server(None)?;
    let mut told = Ok(());
    fleet.run_server(&|| false, |endpoint| {
        told = line.report(&Report::Listening(endpoint.to_owned()));
    })?;
    told
}

fn train(fleet: &mut Fleet, model: &CtrDnn, job: &Job, line: &Line) -> Result<()> {
    let (rank, trainers) = (fleet.worker_index() as usize, fleet.worker_num() as usize);
    let share = Share::new(job.samples, job.batch_size, rank, trainers)?;
    let source = Source::new(job.config.seed, job.config.rows, job.threads)?;
    let numbers: Vec<u64> = share.all().collect();
    let samples = source.samples_numbered(&numbers, job.threads);
    drop((source, numbers));

    let executor = Executor::new(Place::Cpu)?.threads(job.threads).check_finite(job.check_finite);
    let executor = fleet.init_worker(executor)?;
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let fetches = [model.loss.as_str(), &model.auc];
    let step = executor.prepare(fleet.main_program()?, &feeds, &fetches)?;
    line.report(&Report::Ready)?;
    run_steps(step, &samples, share, job.epochs, line)?;

    let (path, interrupted) = match line.brake.end() {
        End::Complete => (Some(&job.finished), false),
        End::Stopped { save } => (save.then_some(&job.interrupted), true),
    };
    if let Some(path) = path {
        let (feeds, fetches) = (model.prediction_feeds(), [model.prediction.as_str()]);
        fleet
            .save_inference_model(path, &feeds, &fetches, executor.scope())
            .context("cannot save the model")?;
        if fleet.is_first_worker() {
            line.report(&Report::Saved { interrupted })?;
        }
    }
    Ok(fleet.stop_worker()?)
}

/// Takes steps until the samples are used up or the brake says so.
fn run_steps(
    mut step: Step,
    samples: &Samples,
    share: Share,
    epochs: usize,
    line: &Line,
) -> Result<()> {
    let mut batch = Batch::default();
    let mut trained = Trained::default();
    // The first step is news by itself.
    let mut reported = None::<Instant>;
    let total = share.steps() * epochs as u64;
    for number in 0..total {
        if !line.brake.begin() {
            break;
        }
        let rows = share.rows(number % share.steps());
        batch.fill(samples, rows.start, rows.len());
        step.run(&batch.tensors())?;
        let (loss, auc) = (step.fetched(0).to_f64_vec()[0], step.fetched(1).to_f64_vec()[0]);
        trained.add(rows.len() as u64, loss, auc);
        if reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
            line.report(&Report::Trained(std::mem::take(&mut trained)))?;
            reported = Some(Instant::now());
        }
    }
    match trained.steps {
        0 => Ok(()),
        _ => line.report(&Report::Trained(trained)),
    }
}
