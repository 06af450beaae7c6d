//! `infer`: how good the models of some epochs are on the test data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bireme_data::Training;
use bireme_engine::{Executor, Place, Scope};

use super::data::{self, Data, Purpose, Reading};
use super::feed::Feed;
use super::show::{Show, Since, Style, metric_text};
use super::{Description, Options, build_on, columns, metrics, optimizer, save};
use crate::config::Config;
use crate::zoo::{Metric, Model};
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
    let (model, description) = build_on(config, table.as_ref(), &options.log)?;
    optimizer::narrow(config, &model)?;
    let count = |key| config.count(key) as u64;
    let epochs = count("runner.infer_start_epoch")..count("runner.infer_end_epoch");
    if epochs.is_empty() {
        return Err(config.refuse(
            "runner.infer_end_epoch",
            format!("is {}, but the first epoch is {}: nothing to do", epochs.end, epochs.start),
        ));
    }
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
    let evaluations =
        epochs.map(|epoch| evaluate(config, options, (&model, &description), &mut data, epoch));
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

fn evaluate(
    config: &Config,
    options: &Options,
    (model, description): (&Model, &Description),
    data: &mut Data,
    epoch: u64,
) -> Result<Evaluation> {
    let log = &options.log;
    log.info(&format!("load model epoch {epoch}"));
    let started = Instant::now();
    let scope = load(config, model, description, epoch, log)?;
    let (names, fetches) = shown(model);
    let waited = Arc::new(AtomicU64::new(0));
    let show = Show {
        style: Style::Infer,
        epoch,
        logged_epoch: epoch,
        names: &names,
        print_interval: config.count("runner.print_interval").max(1) as u64,
        log,
        events: None,
        on_step: None,
        before: (0, 0),
        waited: &waited,
        worker: None,
        since: Mutex::new(Since::now(&waited, None)),
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
    let since = show.since.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut values = vec![since.total_loss / summary.batches as f64];
    for (at, metric) in model.metrics.iter().enumerate() {
        values.push(metrics::own(metric, &scope)?.unwrap_or(since.last[at + 1]));
    }
    let seconds = started.elapsed().as_secs_f64();
    let shown = metric_text(&names[1..], &values[1..]);
    log.info(&format!("epoch: {epoch} done, {shown}epoch time: {seconds:.2} s"));
    let metrics = names.into_iter().zip(values.iter().copied()).skip(1).collect();
    Ok(Evaluation { epoch, loss: values[0], metrics, samples: summary.samples, seconds })
}

/// What is shown, the loss first: names, and the variables that hold the values.
fn shown(model: &Model) -> (Vec<String>, Vec<String>) {
    let loss = ("cost".to_owned(), model.loss.name().to_owned());
    let metric = |metric: &Metric| (metric.name.clone(), metric.variable.name().to_owned());
    [loss].into_iter().chain(model.metrics.iter().map(metric)).unzip()
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
    let folder = data::existing(config, &path).join(epoch.to_string());
    if !folder.is_dir() {
        let problem = format!("is `{path}`, where there is no model of epoch {epoch}");
        return Err(config.refuse("runner.infer_load_path", problem));
    }
    save::check_fits(&folder, description, log)?;
    save::load_parameters(&folder, &model.graph.main(), &scope)?;
    Ok(scope)
}
