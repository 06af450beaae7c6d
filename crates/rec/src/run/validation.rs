//! Validation: how good the model is after an epoch, on data that it is not trained on. Each trainer
//! reads its share of the lines; what comes out is of all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bireme_data::Training;
use bireme_data::source::LineShare;
use bireme_engine::Scope;
use bireme_engine::device::Device;
use bireme_fleet::collective::Rings;
use bireme_fleet::{Fleet, Reduce};

use super::data::{self, Data, Purpose, Reading};
use super::feed::Feed;
use super::metrics;
use super::scores::{LOSS, Tally, Wanted};
use super::show::{Show, Style};
use super::stop::Stop;
use super::topology::Topology;
use super::{Options, explain};
use crate::config::Config;
use crate::zoo::{Metric, Model};
use crate::{Error, Result};

const FOLDER: &str = "runner.valid_data_dir";

/// What came out of a validation.
pub(super) struct Validated {
    /// The loss and all metrics, by name.
    pub(super) metrics: BTreeMap<String, f64>,
    /// Samples of all trainers.
    pub(super) samples: u64,
    pub(super) seconds: f64,
}

/// The data of validations, and what is computed of it.
pub(super) struct Validation {
    data: Data,
    wanted: Wanted,
}

/// What a validation needs of its trainer.
pub(super) struct Trainer<'a> {
    pub(super) options: &'a Options,
    pub(super) model: &'a Model,
    pub(super) fleet: &'a Fleet,
    pub(super) rings: Option<&'a Arc<Rings>>,
    pub(super) scope: &'a Scope,
    pub(super) device: Option<&'a Arc<dyn Device>>,
    pub(super) threads: usize,
    pub(super) stop: &'a Stop,
}

impl Validation {
    /// What a configuration asks for; none where it has no data for it.
    ///
    /// # Errors
    /// When the data does not exist, or the rows of tables are those of passes.
    pub(super) fn of(
        config: &Config,
        options: &Options,
        topology: Topology,
        (model, wanted): (&Model, &Wanted),
        fleet: &Fleet,
    ) -> Result<Option<Validation>> {
        if !config.has(FOLDER) {
            return Ok(None);
        }
        if topology.is_gpubox() {
            let problem = "cannot be used with `sync_mode: gpubox`, where a trainer has the rows of \
                           its training data only: use `bireme infer`";
            return Err(config.refuse(FOLDER, problem));
        }
        let trainers = u64::from(fleet.worker_num());
        let share = LineShare { rank: fleet.worker_index().into(), of: trainers };
        let reading = Reading {
            config,
            model,
            purpose: Purpose::Valid,
            skip_bad_lines: options.skip_bad_lines,
            threads: config.count("runner.thread_num").max(1),
            named: Arc::default(),
            lines: (trainers > 1).then_some(share),
            partial: trainers > 1,
            with_servers: topology.has_servers(),
            interrupt: options.interrupt.clone(),
            log: &options.log,
        };
        let data = Data::new(&reading, data::files(config, Purpose::Valid)?)?;
        Ok(Some(Validation { data, wanted: wanted.clone() }))
    }

    /// Computes loss and metrics of the parameters as they are; trainers call it together. None if
    /// one of them is asked to stop.
    ///
    /// # Errors
    /// When the data cannot be read, there is none, or another process is lost.
    pub(super) fn run(
        &mut self,
        config: &Config,
        epoch: u64,
        trainer: &Trainer<'_>,
    ) -> Result<Option<Validated>> {
        let started = Instant::now();
        let Trainer { model, fleet, scope, .. } = *trainer;
        // Training goes on with its own counts.
        let kept = metrics::take(&model.metrics, scope)?;
        let done = self.pass(epoch, trainer);
        let values = done.and_then(|done| {
            let own = match &done {
                Some(done) => [done.losses, done.batches as f64, done.samples as f64, 0.0],
                None => [0.0, 0.0, 0.0, 1.0],
            };
            let [losses, batches, samples, stopped] =
                fleet.util().all_reduce(&own, Reduce::Sum)?[..]
            else {
                return Err(Error::Settings("trainers brought other numbers".to_owned()));
            };
            let Some(done) = done.filter(|_| stopped == 0.0) else { return Ok(None) };
            if samples == 0.0 {
                return Err(config.refuse(FOLDER, "has no sample"));
            }
            let mut values = done.tally.global(fleet)?;
            for metric in &model.metrics {
                let of_batch = done.last.get(&metric.name).copied();
                let value = metrics::global(metric, scope, fleet)?.or(of_batch);
                values.insert(metric.name.clone(), value.unwrap_or(f64::NAN));
            }
            values.insert(LOSS.to_owned(), losses / batches);
            Ok(Some((values, samples as u64)))
        });
        metrics::put_back(kept, scope)?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(values?.map(|(metrics, samples)| Validated { metrics, samples, seconds }))
    }

    /// Goes through this trainer's share once; none if it is asked to stop.
    fn pass(&mut self, epoch: u64, trainer: &Trainer<'_>) -> Result<Option<Done>> {
        let Trainer { options, model, fleet, scope, .. } = *trainer;
        let waited = Arc::default();
        let show = Show {
            // Its lines are nobody's: what it says comes at its end.
            print_interval: u64::MAX,
            tally: Some(Tally::new(&self.wanted, Vec::new()).into()),
            ..Show::new(Style::Executor, epoch, model, &self.wanted, &options.log, &waited)
        };
        let hook = |progress: &bireme_data::Progress<'_>| {
            show.step(progress).map_err(|error| bireme_data::Error::Settings(error.to_string()))
        };
        let interrupt = || trainer.stop.is_asked();
        let warn = |text: &str| options.log.warn_once(text);
        let fetches = fetches(model, &self.wanted);
        let training = Training {
            fetches: &fetches,
            split: trainer.threads,
            infer: true,
            check_finite: options.check_finite,
            device: trainer.device.cloned(),
            on_memory: options.on_memory.clone(),
            warn: Some(&warn),
            remote: fleet.worker().map(|worker| Arc::clone(worker) as _),
            collective: trainer.rings.map(|rings| Arc::clone(rings) as _),
            interrupt: Some(&interrupt),
            on_batch: Some(&hook),
            ..Training::new(fleet.main_program()?, scope, &model.slots)
        };
        let mut portions = Vec::new();
        for batches in self.data.open(0, 1)? {
            portions.push(Feed::new(batches, 0, &waited).portion(u64::MAX));
        }
        let summary = match bireme_data::train(&training, portions) {
            Err(bireme_data::Error::Interrupted) => return Ok(None),
            Err(error) => return Err(explain::with_line(self.data.source(), error.into())),
            Ok(summary) => summary,
        };
        let names = metrics::names(model);
        let (since, tally) = show.into_parts();
        Ok(Some(Done {
            losses: since.total_loss,
            batches: summary.batches,
            samples: summary.samples,
            last: names.into_iter().zip(since.last.into_iter().skip(1)).collect(),
            tally: tally.unwrap_or_else(|| Tally::new(&Wanted::default(), Vec::new())),
        }))
    }
}

/// What one trainer has seen.
struct Done {
    losses: f64,
    batches: u64,
    samples: u64,
    /// The model's metrics of the last batch.
    last: BTreeMap<String, f64>,
    tally: Tally,
}

/// What a step fetches: the loss, the model's metrics, and what others are computed from.
pub(super) fn fetches(model: &Model, wanted: &Wanted) -> Vec<String> {
    let metrics = model.metrics.iter().map(|metric: &Metric| metric.variable.name().to_owned());
    [model.loss.name().to_owned()].into_iter().chain(metrics).chain(wanted.fetch()).collect()
}
