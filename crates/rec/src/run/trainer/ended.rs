//! What follows an epoch: validation, metrics of all trainers, the model on disk, and whether it was
//! the best.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use bireme_fleet::Fleet;

use super::{Position, Trainer};
use crate::Result;
use crate::config::{Config, python_float};
use crate::run::best::Judge;
use crate::run::events::{self, Event};
use crate::run::scores::{Tally, Wanted};
use crate::run::show::metric_text;
use crate::run::topology::Topology;
use crate::run::validation::{self, Validated, Validation};
use crate::run::{Epoch, Options, columns, metrics, save};
use crate::zoo::Model;

/// What the model is tried on after each epoch, and what says which is the best.
///
/// # Errors
/// When there is no such data, or no such metric.
pub(super) fn tried(
    config: &Config,
    options: &Options,
    topology: Topology,
    (model, wanted): (&Model, &Wanted),
    fleet: &Fleet,
) -> Result<(Option<Validation>, Option<Judge>)> {
    let validation = Validation::of(config, options, topology, (model, wanted), fleet)?;
    let names = [metrics::names(model), wanted.names()].concat();
    let judge = Judge::of(config, &names, validation.is_some())?;
    Ok((validation, judge))
}

impl Trainer<'_> {
    /// Tries the model on the validation data: what came out, nothing where there is none. `None`
    /// where a trainer is asked to stop; all of them call it together.
    pub(super) fn validate(&mut self) -> Result<Option<Option<Validated>>> {
        let Some(validation) = &mut self.validation else { return Ok(Some(None)) };
        let trainer = validation::Trainer {
            options: self.options,
            model: &self.model,
            fleet: &self.fleet,
            rings: self.rings.as_ref(),
            scope: self.executor.scope(),
            device: self.executor.device(),
            threads: self.threads.0 * self.threads.1,
            stop: &self.stop,
        };
        Ok(validation.run(self.config, self.position.epoch, &trainer)?.map(Some))
    }

    /// Shows what came out of a validation, and notes if the epoch is the best.
    fn end_validation(&mut self, valid: Validated) -> Result<BTreeMap<String, f64>> {
        let (epoch, batch) = (self.position.epoch, self.position.batches);
        let Validated { metrics: values, samples, seconds } = valid;
        let text: Vec<String> =
            values.iter().map(|(name, value)| format!("{name}: {value:.6}, ")).collect();
        self.options.log.info(&format!(
            "epoch: {epoch} valid, {}{samples} samples, valid time: {seconds:.2} s",
            text.concat()
        ));
        let metrics = events::finite(&values);
        let time = events::now();
        self.write(Event::Valid { time, epoch, batch, metrics, samples, seconds })?;
        if let Some(judge) = &self.judge {
            self.position.best = judge.judge(self.position.best.take(), epoch, &values);
        }
        Ok(values)
    }

    /// Shows and saves what came out of an epoch.
    pub(super) fn end_epoch(&mut self, last: &[f64], valid: Option<Validated>) -> Result<()> {
        let epoch = self.position.epoch;
        let global = self.global_metrics(last)?;
        self.show_epoch(&global, last);
        let valid = match valid {
            Some(valid) => self.end_validation(valid)?,
            None => BTreeMap::new(),
        };
        let every = self.config.count("runner.save_epochs") as u64;
        let is_best = self.position.best.as_ref().is_some_and(|best| best.epoch == epoch);
        let ends_early =
            self.judge.as_ref().is_some_and(|j| j.is_over(self.position.best.as_ref(), epoch + 1));
        let is_last = ends_early || epoch + 1 == self.config.count("runner.epochs") as u64;
        let is_time = is_last || every > 0 && (epoch + 1).is_multiple_of(every);
        let model = match is_time || is_best {
            true => self.save_model(every > 0)?,
            false => PathBuf::new(),
        };
        if let Some(best) = self.position.best.as_ref().filter(|_| is_best)
            && self.fleet.is_first_worker()
        {
            best.write(&self.models())?;
        }
        let position = &mut self.position;
        let loss = position.loss / position.losses.max(1) as f64;
        let (samples, seconds) = (position.samples, position.seconds);
        let metrics = global;
        position.epochs.push(Epoch {
            epoch,
            loss,
            metrics: metrics.clone(),
            valid,
            samples,
            seconds,
            model,
        });
        position.sums.clear();
        (position.loss, position.losses, position.samples, position.seconds) = (0.0, 0, 0, 0.0);
        position.epoch += 1;
        position.taken = vec![0; self.threads.0];
        let batch = position.batches;
        let (time, metrics) = (events::now(), events::finite(&metrics));
        self.write(Event::Epoch { time, epoch, batch, metrics, samples, seconds })?;
        if is_time && every > 0 { self.checkpoint() } else { Ok(()) }
    }

    /// Saves the model of this epoch; with `whole`, training can begin from it too.
    fn save_model(&self, whole: bool) -> Result<PathBuf> {
        let saving = Instant::now();
        let Trainer { fleet, names, config, .. } = self;
        let scope = self.executor.scope();
        let model = save::model(fleet, scope, names, config, self.position.epoch, whole)?;
        if fleet.is_first_worker() {
            self.description.write(&model)?;
            columns::write(&self.model.format, &model)?;
        }
        self.saved("model", model.clone(), saving)?;
        if !self.topology.has_servers() && fleet.is_first_worker() {
            self.options.log.info(&format!("Already save model in {}", model.display()));
        }
        Ok(model)
    }

    /// Metrics over all trainers; those that begin anew each epoch are zeroed.
    fn global_metrics(&self, last: &[f64]) -> Result<BTreeMap<String, f64>> {
        let scope = self.executor.scope();
        let begin_anew = match self.config.switch("runner.use_auc") {
            true => self.config.count("runner.auc_num"),
            false => 0,
        };
        let mut values = BTreeMap::new();
        for (at, metric) in self.model.metrics.iter().enumerate() {
            let of_batch = last.get(at + 1).copied().unwrap_or(f64::NAN);
            let value = metrics::global(metric, scope, &self.fleet)?.unwrap_or(of_batch);
            values.insert(metric.name.clone(), value);
            if at < begin_anew {
                metrics::reset(metric, scope)?;
            }
        }
        let tally = Tally::new(&self.wanted.of_training(), self.position.sums.clone());
        values.extend(tally.global(&self.fleet)?);
        Ok(values)
    }

    /// What the last batch had, with the metrics of the whole epoch.
    fn with_global(&self, global: &BTreeMap<String, f64>, last: &[f64]) -> Vec<f64> {
        let loss = last.first().copied().unwrap_or(f64::NAN);
        let names = self.shown_names().into_iter().skip(1);
        let metrics = names.map(|name| global.get(&name).copied().unwrap_or(f64::NAN));
        [loss].into_iter().chain(metrics).collect()
    }

    fn show_epoch(&self, global: &BTreeMap<String, f64>, last: &[f64]) {
        let Position { epoch, seconds, samples, .. } = self.position;
        let log = &self.options.log;
        if !self.topology.has_servers() {
            let metrics = match self.data.is_loader() {
                true => metric_text(&self.shown_names(), &self.with_global(global, last)),
                false => String::new(),
            };
            log.info(&format!("epoch: {epoch} done, {metrics}epoch time: {seconds:.2} s"));
            return;
        }
        let speed = python_float(self.counted.speed(samples, seconds));
        let unit = self.counted.unit;
        let time = python_float(seconds);
        let auc = self.model.metrics.first().and_then(|metric| global.get(&metric.name));
        log.info(&match auc.filter(|_| self.config.switch("runner.use_auc")) {
            Some(auc) => format!(
                "Epoch: {epoch}, using time: {time} second, ips: {speed} {unit}/sec. auc: {}",
                python_float(*auc)
            ),
            None => format!("Epoch: {epoch}, using time {time} second, ips {speed} {unit}/sec."),
        });
        let counted = self.wanted.of_training().names();
        if !counted.is_empty() {
            let value = |name: &String| global.get(name).copied().unwrap_or(f64::NAN);
            let values: Vec<f64> = counted.iter().map(value).collect();
            let text = metric_text(&counted, &values);
            log.info(&format!("epoch: {epoch}, {}", text.trim_end_matches(", ")));
        }
    }
}
