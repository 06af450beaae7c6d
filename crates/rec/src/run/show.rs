//! What a run shows while it trains: PaddleRec's lines, and events.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bireme_data::Progress;
use bireme_fleet::{Times, Worker, clock};

use super::events::{self, Event, Events, WithServers};
use super::scores::{Tally, Wanted};
use super::{OnStep, Step};
use crate::log::{cpp_float, numpy_f32, numpy_f64};
use crate::zoo::Model;
use crate::{Log, Result};

/// Whose lines are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Those of the loop of `static_trainer.py`.
    Loop,
    /// Those of `static_infer.py`, which round more.
    Infer,
    /// Those of Paddle's executor.
    Executor,
}

/// What is shown of one epoch.
pub(super) struct Show<'a> {
    pub(super) style: Style,
    pub(super) epoch: u64,
    /// Its number in events, where lines have another.
    pub(super) logged_epoch: u64,
    /// `cost` and the names of the model's metrics, as they are fetched.
    pub(super) names: Vec<String>,
    /// The names of what is counted besides.
    pub(super) counted: Vec<String>,
    pub(super) print_interval: u64,
    pub(super) log: &'a Log,
    pub(super) events: Option<&'a Mutex<Events>>,
    pub(super) on_step: Option<&'a OnStep>,
    /// Batches of this epoch, and of the run, before this portion.
    pub(super) before: (u64, u64),
    pub(super) waited: &'a Arc<AtomicU64>,
    /// The way to the servers, if there are some.
    pub(super) worker: Option<&'a Worker>,
    pub(super) since: Mutex<Since>,
    /// Counts of metrics that are computed from predictions, which are fetched last.
    pub(super) tally: Option<Mutex<Tally>>,
}

/// What happened since the last line.
pub(super) struct Since {
    started: Instant,
    waited: u64,
    with_servers: Times,
    samples: u64,
    loss: f64,
    losses: u64,
    /// Of the portion.
    pub(super) total_loss: f64,
    /// What the last step fetched.
    pub(super) last: Vec<f64>,
}

impl Since {
    pub(super) fn now(waited: &AtomicU64, worker: Option<&Worker>) -> Since {
        Since {
            started: Instant::now(),
            waited: waited.load(Ordering::Relaxed),
            with_servers: worker.map(Worker::times).unwrap_or_default(),
            samples: 0,
            loss: 0.0,
            losses: 0,
            total_loss: 0.0,
            last: Vec::new(),
        }
    }
}

impl<'a> Show<'a> {
    /// What is shown of a model and of what is wanted besides, in the log alone and without counts.
    pub(super) fn new(
        style: Style,
        epoch: u64,
        model: &Model,
        wanted: &Wanted,
        log: &'a Log,
        waited: &'a Arc<AtomicU64>,
    ) -> Show<'a> {
        let metrics = model.metrics.iter().map(|metric| metric.name.clone());
        Show {
            style,
            epoch,
            logged_epoch: epoch,
            names: ["cost".to_owned()].into_iter().chain(metrics).collect(),
            counted: wanted.names(),
            print_interval: 1,
            log,
            events: None,
            on_step: None,
            before: (0, 0),
            waited,
            worker: None,
            since: Mutex::new(Since::now(waited, None)),
            tally: None,
        }
    }

    /// What happened since the last line, and the counts.
    pub(super) fn into_parts(self) -> (Since, Option<Tally>) {
        let tally =
            self.tally.map(|tally| tally.into_inner().unwrap_or_else(PoisonError::into_inner));
        (self.since.into_inner().unwrap_or_else(PoisonError::into_inner), tally)
    }

    /// Counts a step, and shows it when it is time.
    pub(super) fn step(&self, progress: &Progress<'_>) -> Result<()> {
        let values: Vec<f64> = (0..self.names.len())
            .map(|fetch| progress.fetched(fetch).to_f64_vec().first().copied().unwrap_or(f64::NAN))
            .collect();
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tally) = self.tally.as_ref().filter(|_| !self.counted.is_empty()) {
            let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.add(progress.data, progress.fetched(self.names.len()))?;
        }
        let samples = progress.data.rows() as u64;
        if let Some(tell) = self.on_step {
            tell(&Step {
                samples,
                loss: values[0],
                metric: values.get(1).copied().unwrap_or(f64::NAN),
            });
        }
        since.samples += samples;
        since.loss += values[0];
        since.total_loss += values[0];
        since.losses += 1;
        let number = self.before.0 + progress.batches;
        let is_time = match self.style {
            Style::Loop | Style::Infer => (number - 1).is_multiple_of(self.print_interval),
            Style::Executor => number.is_multiple_of(self.print_interval),
        };
        if is_time {
            let counted = self
                .tally
                .as_ref()
                .map(|tally| tally.lock().unwrap_or_else(PoisonError::into_inner).values());
            let shown = [&values[..], &counted.unwrap_or_default()].concat();
            self.show(&mut since, number, progress.batches, &shown)?;
        }
        since.last = values;
        Ok(())
    }

    fn all_names(&self) -> impl Iterator<Item = &String> {
        self.names.iter().chain(&self.counted)
    }

    fn show(&self, since: &mut Since, number: u64, batches: u64, values: &[f64]) -> Result<()> {
        let waited = self.waited.load(Ordering::Relaxed);
        let reader = Duration::from_nanos(waited - since.waited).as_secs_f64();
        let seconds = since.started.elapsed().as_secs_f64();
        match self.style {
            Style::Loop | Style::Infer => {
                self.log.info(&self.loop_line(number - 1, values, since.samples, reader, seconds));
            }
            Style::Executor => self.log.plain(&self.executor_line(number, values)),
        }
        let spent = self.worker.map(|worker| worker.times());
        if let Some(events) = self.events {
            let finite = |value: f64| Some(value).filter(|value| value.is_finite());
            let metrics = self.all_names().zip(values).skip(1);
            let metrics = metrics.filter_map(|(name, value)| Some((name.clone(), finite(*value)?)));
            events.lock().unwrap_or_else(PoisonError::into_inner).write(&Event::Step {
                time: events::now(),
                epoch: self.logged_epoch,
                batch: self.before.1 + batches,
                loss: finite(since.loss / since.losses as f64),
                metrics: metrics.collect::<BTreeMap<_, _>>(),
                samples: since.samples,
                seconds,
                reader_seconds: reader,
                servers: spent.map(|spent| WithServers::of(spent.since(&since.with_servers))),
                samples_per_second: since.samples as f64 / seconds.max(1e-9),
            })?;
        }
        (since.started, since.waited) = (Instant::now(), waited);
        since.with_servers = spent.unwrap_or_default();
        (since.samples, since.loss, since.losses) = (0, 0.0, 0);
        Ok(())
    }

    fn loop_line(
        &self,
        id: u64,
        values: &[f64],
        samples: u64,
        reader: f64,
        seconds: f64,
    ) -> String {
        let interval = self.print_interval as f64;
        let names: Vec<String> = self.all_names().cloned().collect();
        let metrics = metric_text(&names, values);
        let rate = samples as f64 / (seconds + 0.0001);
        let ips = match self.style {
            Style::Infer => format!("{rate:.2}"),
            _ => format!("{rate:.5}"),
        };
        format!(
            "epoch: {}, batch_id: {id}, {metrics}avg_reader_cost: {:.5} sec, avg_batch_cost: {:.5} \
             sec, avg_samples: {:.5}, ips: {ips} ins/s",
            self.epoch,
            reader / interval,
            seconds / interval,
            samples as f64 / interval,
        )
    }

    fn executor_line(&self, number: u64, values: &[f64]) -> String {
        let mut line = format!("time: [{}], batch: [{number}]", clock::now().0);
        for (name, value) in self.all_names().zip(values) {
            line += &format!(", Epoch {} Var {name}[1]:[{}]", self.epoch, cpp_float(*value));
        }
        line
    }
}

/// `cost: 0.69, auc: 0.5, ` as PaddleRec writes it.
pub(super) fn metric_text(names: &[String], values: &[f64]) -> String {
    let mut text = String::new();
    for (name, value) in names.iter().zip(values) {
        // The loss is of 32 bits, metrics are of 64.
        let value = if name == "cost" { numpy_f32(*value) } else { numpy_f64(*value) };
        text += &format!("{name}: {value}, ");
    }
    text
}
