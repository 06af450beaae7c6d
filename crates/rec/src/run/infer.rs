//! `infer`: how good the models of some epochs are on the test data.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use bireme_data::Training;
use bireme_engine::{Executor, Place, Scope};

use super::data::{self, Data, Purpose, Reading};
use super::events::{self, Event, Events};
use super::feed::Feed;
use super::scores::{LOSS, Tally, Wanted};
use super::show::{Show, Style, metric_text};
use super::{
    Best, Description, Lines, Options, build_on, columns, metrics, optimizer, save, validation,
};
use crate::config::Config;
use crate::zoo::{self, Model};
use crate::{Error, Log, Result};

/// How good the model of an epoch is.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The epoch.
    pub epoch: u64,
    /// The mean loss of all batches.
    pub loss: f64,
    /// Metrics over all samples, by name.
    pub metrics: BTreeMap<String, f64>,
    /// How many samples there were.
    pub samples: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Tries the models of epochs `infer_start_epoch` up to, and without, `infer_end_epoch`.
///
/// # Errors
/// When there is no such model, it is another one, or data cannot be read.
pub fn infer(config: &Config, options: &Options) -> Result<Vec<Evaluation>> {
    config.warnings().iter().for_each(|warning| options.log.warn(warning));
    options.log.plain(&config.table());
    let table = columns::for_infer(config)?;
    let (model, mut description) = build_on(config, table.as_ref(), &options.log)?;
    optimizer::narrow(config, &model)?;
    let epochs = epochs(config, &options.log)?;
    let wanted = Wanted::of(config, zoo::named(&description.model)?, &model)?;
    let threads = config.count("runner.thread_num").max(1);
    let reading = Reading {
        config,
        model: &model,
        purpose: Purpose::Infer,
        skip_bad_lines: options.skip_bad_lines,
        threads,
        named: Arc::default(),
        lines: None,
        partial: false,
        with_servers: false,
        interrupt: options.interrupt.clone(),
        log: &options.log,
    };
    let mut data = match &options.input {
        Some(input) => Data::given(&reading, Arc::clone(input))?,
        None => Data::new(&reading, data::files(config, Purpose::Infer)?)?,
    };
    let format = data.source().map_or(&model.format, |files| &files.source().format);
    description.lines = Lines::of(format, &model.slots)?;
    let mut events = log_of(config, &options.log);
    let evaluations = epochs.map(|epoch| {
        let of = (&model, &description, &wanted);
        let evaluation = evaluate(config, options, of, &mut data, epoch)?;
        if let Some(events) = &mut events {
            events.write(&evaluation.event())?;
        }
        Ok(evaluation)
    });
    let evaluations = evaluations.collect::<Result<Vec<_>>>();
    let evaluations = evaluations.map_err(|error| super::explain::with_keys(config, error))?;
    if let Some(files) = data.source().cloned()
        && let Some(problem) = files.unnamed(&files.source().named.slots())?
    {
        data.warn_unnamed(&problem, &options.log);
    }
    data.report_bad_lines(&options.log);
    Ok(evaluations)
}

/// The epochs to try: those that a configuration says, else the best, where training has named one.
fn epochs(config: &Config, log: &Log) -> Result<Range<u64>> {
    const KEYS: [&str; 2] = ["runner.infer_start_epoch", "runner.infer_end_epoch"];
    if !KEYS.into_iter().any(|key| config.has(key))
        && let Some(best) = Best::read(&models(config))?
    {
        log.info(&format!("epoch {} was the best: {} {:.6}", best.epoch, best.metric, best.value));
        return Ok(best.epoch..best.epoch + 1);
    }
    let [start, end] = KEYS.map(|key| config.count(key) as u64);
    match start < end {
        true => Ok(start..end),
        false => Err(config
            .refuse(KEYS[1], format!("is {end}, but the first epoch is {start}: nothing to do"))),
    }
}

/// The folder of the models.
fn models(config: &Config) -> PathBuf {
    data::existing(config, &config.text("runner.infer_load_path"))
}

/// Where the report of the training finds what comes out; none where there is no such training, or
/// its folder cannot be written.
fn log_of(config: &Config, log: &Log) -> Option<Events> {
    let run = match config.text("runner.run_path") {
        own if !own.is_empty() => PathBuf::from(own),
        _ => models(config).join("run"),
    };
    match Events::of_infer(&run) {
        Ok(events) => Some(events),
        Err(error) => {
            if run.is_dir() {
                log.warn(&format!("`bireme report` will not show this: {error}"));
            }
            None
        }
    }
}

impl Evaluation {
    fn event(&self) -> Event {
        let mut metrics = self.metrics.clone();
        metrics.insert(LOSS.to_owned(), self.loss);
        Event::Infer {
            time: events::now(),
            epoch: self.epoch,
            metrics: events::finite(&metrics),
            samples: self.samples,
            seconds: self.seconds,
        }
    }
}

fn evaluate(
    config: &Config,
    options: &Options,
    (model, description, wanted): (&Model, &Description, &Wanted),
    data: &mut Data,
    epoch: u64,
) -> Result<Evaluation> {
    let log = &options.log;
    log.info(&format!("load model epoch {epoch}"));
    let started = Instant::now();
    let scope = load(config, model, description, epoch, log)?;
    let fetches = validation::fetches(model, wanted);
    let waited = Arc::new(AtomicU64::new(0));
    let show = Show {
        print_interval: config.count("runner.print_interval").max(1) as u64,
        tally: Some(Tally::new(wanted, Vec::new()).into()),
        ..Show::new(Style::Infer, epoch, model, wanted, log, &waited)
    };
    let hook = |progress: &bireme_data::Progress<'_>| {
        show.step(progress).map_err(|error| bireme_data::Error::Settings(error.to_string()))
    };
    let interrupt = || options.interrupt.as_ref().is_some_and(|asked| asked());
    let (program, warn) = (model.graph.main(), |text: &str| options.log.warn_once(text));
    // The batches split over threads, so that the result does not depend on their number.
    let training = Training {
        fetches: &fetches,
        split: config.count("runner.thread_num").max(1),
        infer: true,
        check_finite: options.check_finite,
        device: options.card(config)?,
        on_memory: options.on_memory.clone(),
        warn: Some(&warn),
        interrupt: Some(&interrupt),
        on_batch: Some(&hook),
        ..Training::new(&program, &scope, &model.slots)
    };
    let mut portions = Vec::new();
    for batches in data.open(epoch, 1)? {
        portions.push(Feed::new(batches, 0, &waited).portion(u64::MAX));
    }
    let summary = bireme_data::train(&training, portions)
        .map_err(|error| super::explain::with_line(data.source(), error.into()))?;
    if summary.batches == 0 {
        let files: Vec<&PathBuf> = data.files().iter().take(1).collect();
        return Err(Error::Settings(format!("there is no sample in {files:?} …")));
    }
    let names = [vec!["cost".to_owned()], metrics::names(model), wanted.names()].concat();
    let (since, tally) = show.into_parts();
    let mut values = vec![since.total_loss / summary.batches as f64];
    for (at, metric) in model.metrics.iter().enumerate() {
        values.push(metrics::own(metric, &scope)?.unwrap_or(since.last[at + 1]));
    }
    values.extend(tally.iter().flat_map(Tally::values));
    let seconds = started.elapsed().as_secs_f64();
    let shown = metric_text(&names[1..], &values[1..]);
    log.info(&format!("epoch: {epoch} done, {shown}epoch time: {seconds:.2} s"));
    let metrics = names.into_iter().zip(values.iter().copied()).skip(1).collect();
    Ok(Evaluation { epoch, loss: values[0], metrics, samples: summary.samples, seconds })
}

/// The variables of the model of an epoch, with its parameters.
fn load(
    config: &Config,
    model: &Model,
    description: &Description,
    epoch: u64,
    log: &Log,
) -> Result<Scope> {
    let scope = Scope::new();
    let mut executor = Executor::new(Place::Cpu)?.with_scope(scope.clone());
    executor.run(&model.graph.startup(), &[], &[])?;
    let path = config.text("runner.infer_load_path");
    let folder = models(config).join(epoch.to_string());
    if !folder.is_dir() {
        let problem = format!("is `{path}`, where there is no model of epoch {epoch}");
        return Err(config.refuse("runner.infer_load_path", problem));
    }
    save::check_fits(&folder, description, log)?;
    save::load_parameters(&folder, &model.graph.main(), &scope)?;
    Ok(scope)
}
