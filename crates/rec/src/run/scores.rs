//! Metrics of predictions beside a model's own: sums over samples, and what needs all samples of a
//! group together. They are counted on the host, from what a step predicts and the labels of its batch.

mod grouped;
mod sums;

use std::collections::BTreeMap;

use bireme_data::{Batch, Slot};
use bireme_engine::tensor::Tensor;
use bireme_fleet::{Fleet, Reduce};

use crate::config::Config;
use crate::zoo::{Entry, Model};
use crate::{Error, Result};
use grouped::{Grouped, Judged};
pub(super) use sums::Sums;

const METRICS: &str = "runner.metrics";
const GROUP: &str = "runner.metric_group";
/// The loss among metrics.
pub(super) const LOSS: &str = "loss";
const KNOWN: &str = "auc, logloss, accuracy, rmse, mae, pcoc, gauc, hr@10 or ndcg@10";

/// A metric of predictions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Sum(sums::Kind),
    Grouped(grouped::Kind),
}

/// Something that a model predicts.
#[derive(Clone, Debug, PartialEq)]
struct Target {
    /// What its metrics are called besides: `_ctr`; nothing for the only one.
    suffix: String,
    /// The slot of its label.
    label: usize,
    /// Its place in the prediction of a sample.
    column: usize,
}

/// The metrics that a configuration names, beside a model's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wanted {
    kinds: Vec<(String, Kind)>,
    targets: Vec<Target>,
    /// The slot whose values make groups.
    group: Option<usize>,
    /// The variable of the prediction.
    prediction: String,
}

impl Wanted {
    /// What a configuration names.
    ///
    /// # Errors
    /// When there is no such metric, or it cannot be had of this model.
    pub(super) fn of(config: &Config, entry: &Entry, model: &Model) -> Result<Wanted> {
        let mut kinds = Vec::new();
        for name in config.texts(METRICS) {
            let name = name.to_ascii_lowercase();
            if name == "auc" && !model.metrics.is_empty() {
                // Every model that has labels shows it.
                continue;
            }
            let Some(kind) = kind(&name) else {
                let problem = format!("names `{name}`, which is no metric: use {KNOWN}");
                return Err(config.refuse(METRICS, problem));
            };
            if !kinds.iter().any(|(known, _)| *known == name) {
                kinds.push((name, kind));
            }
        }
        let is_grouped = kinds.iter().any(|(_, kind)| matches!(kind, Kind::Grouped(_)));
        let group = group(config, model, is_grouped)?;
        if kinds.is_empty() {
            return Ok(Wanted::default());
        }
        let targets = targets(config, entry, model)?;
        Ok(Wanted { kinds, targets, group, prediction: model.prediction.name().to_owned() })
    }

    /// Those that are sums over samples, as training shows them.
    pub(super) fn of_training(&self) -> Wanted {
        let mut wanted = self.clone();
        wanted.kinds.retain(|(_, kind)| matches!(kind, Kind::Sum(_)));
        wanted
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// What a step must fetch for them.
    pub(super) fn fetch(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.prediction.clone())
    }

    /// Their names.
    pub(super) fn names(&self) -> Vec<String> {
        let of_target = |target: &Target| {
            let suffix = target.suffix.clone();
            self.kinds.iter().map(move |(name, _)| format!("{name}{suffix}"))
        };
        self.targets.iter().flat_map(of_target).collect()
    }

    fn keeps_samples(&self) -> bool {
        self.kinds.iter().any(|(_, kind)| matches!(kind, Kind::Grouped(_)))
    }
}

fn kind(name: &str) -> Option<Kind> {
    let sum = sums::Kind::named(name).map(Kind::Sum);
    sum.or_else(|| grouped::Kind::named(name).map(Kind::Grouped))
}

/// The slot that makes groups.
fn group(config: &Config, model: &Model, is_needed: bool) -> Result<Option<usize>> {
    let name = config.text(GROUP);
    match (name.is_empty(), is_needed) {
        (true, false) => return Ok(None),
        (true, true) => {
            let problem = format!("names one of groups of samples: say by which slot, `{GROUP}`");
            return Err(config.refuse(METRICS, problem));
        }
        (false, false) => {
            let problem = format!("has no effect: no metric of `{METRICS}` is of groups");
            return Err(config.refuse(GROUP, problem));
        }
        (false, true) => {}
    }
    let tokens = model.format.names(&model.slots)?;
    let is_it = |(slot, token): (&Slot, &String)| slot.name == name || *token == name;
    match model.slots.iter().zip(&tokens).position(is_it) {
        Some(slot) => Ok(Some(slot)),
        None => {
            let problem = format!("is `{name}`, and the model has no such slot");
            Err(config.refuse(GROUP, problem))
        }
    }
}

/// What a model predicts, and the labels of it.
fn targets(config: &Config, entry: &Entry, model: &Model) -> Result<Vec<Target>> {
    let labels = entry.labels;
    let width = model.prediction.shape().last().copied().unwrap_or(1).max(1) as usize;
    let refuse = |why: &str| {
        let problem = format!("are of predictions with labels, and {} {why}", entry.name);
        Err(config.refuse(METRICS, problem))
    };
    if labels.is_empty() {
        return refuse("has none");
    }
    if labels.len() > 1 && (labels.len() != width || labels.len() != model.metrics.len()) {
        return refuse("predicts something else");
    }
    let target = |(at, label): (usize, &&str)| {
        let slot = model.slots.iter().position(|slot| slot.name == **label)?;
        Some(match labels.len() {
            // One number, or one for each class.
            1 => Target { suffix: String::new(), label: slot, column: width - 1 },
            _ => {
                let suffix = model.metrics[at].name.trim_start_matches("auc").to_owned();
                Target { suffix, label: slot, column: at }
            }
        })
    };
    match labels.iter().enumerate().map(target).collect() {
        Some(targets) => Ok(targets),
        None => refuse("is not fed its labels"),
    }
}

/// The counts of metrics.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    wanted: Wanted,
    sums: Vec<Sums>,
    grouped: Vec<Grouped>,
}

impl Tally {
    /// Counts of what is wanted, which go on from sums that a checkpoint has kept.
    pub(super) fn new(wanted: &Wanted, mut sums: Vec<Sums>) -> Tally {
        let targets = wanted.targets.len();
        sums.resize(targets, Sums::default());
        Tally { wanted: wanted.clone(), sums, grouped: vec![Grouped::default(); targets] }
    }

    /// What a checkpoint keeps.
    pub(super) fn sums(&self) -> &[Sums] {
        &self.sums
    }

    /// Counts a batch and what was predicted for it.
    ///
    /// # Errors
    /// When a group or a label is not one number a sample.
    pub(super) fn add(&mut self, batch: &Batch, prediction: &Tensor) -> Result<()> {
        let (tensors, samples) = (batch.tensors(), batch.rows());
        let column = |slot: usize| match tensors[slot].numel() == samples {
            true => Ok(tensors[slot]),
            false => Err(Error::Settings(format!(
                "slot `{}` has several values a sample, and metrics need one",
                batch.slots()[slot].name
            ))),
        };
        let groups = match self.wanted.group.filter(|_| self.wanted.keeps_samples()) {
            Some(slot) => grouped::keys(column(slot)?),
            None => Vec::new(),
        };
        let predictions = prediction.to_f64_vec();
        let width = predictions.len() / samples.max(1);
        for (at, target) in self.wanted.targets.iter().enumerate() {
            let labels = column(target.label)?.to_f64_vec();
            for (sample, label) in labels.into_iter().enumerate() {
                let Some(score) = predictions.get(sample * width + target.column) else { break };
                self.sums[at].add(*score, label);
                if let Some(group) = groups.get(sample) {
                    let judged =
                        Judged { group: *group, score: *score as f32, label: label as f32 };
                    self.grouped[at].add(judged);
                }
            }
        }
        Ok(())
    }

    /// The values as of now, in the order of the names.
    pub(super) fn values(&self) -> Vec<f64> {
        let mut values = Vec::new();
        for (sums, grouped) in self.sums.iter().zip(&self.grouped) {
            for (_, kind) in &self.wanted.kinds {
                values.push(match kind {
                    Kind::Sum(kind) => sums.value(*kind),
                    Kind::Grouped(kind) => grouped.value(*kind),
                });
            }
        }
        values
    }

    /// The values over all trainers, by name; they call it together.
    ///
    /// # Errors
    /// When a trainer is lost.
    pub(super) fn global(&self, fleet: &Fleet) -> Result<BTreeMap<String, f64>> {
        let mut all = self.clone();
        if fleet.worker_num() > 1 && !self.wanted.is_empty() {
            let own: Vec<f64> = self.sums.iter().flat_map(|sums| sums.numbers()).collect();
            let total = fleet.util().all_reduce(&own, Reduce::Sum)?;
            all.sums = total.chunks(Sums::NUMBERS).map(Sums::of_numbers).collect();
            if self.wanted.keeps_samples() {
                for grouped in &mut all.grouped {
                    let parts = fleet.util().all_gather(&grouped.to_bytes())?;
                    *grouped = Grouped::of_parts(&parts);
                }
            }
        }
        Ok(self.wanted.names().into_iter().zip(all.values()).collect())
    }
}

/// Whether more is better of a metric; `None` where neither is.
pub(super) fn more_is_better(name: &str) -> Option<bool> {
    let is = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    match name {
        _ if is(&["auc", "gauc", "accuracy", "acc", "hr@", "ndcg@"]) => Some(true),
        _ if is(&[LOSS, "logloss", "rmse", "mae"]) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::zoo::{self, Hyper};

    fn wanted(model: &str, keys: &str) -> Result<Wanted> {
        let config =
            Config::parse(Path::new("a.yaml"), &format!("runner: {{{keys}}}"), &[]).unwrap();
        let entry = zoo::find(model).unwrap();
        let built = (entry.build)(&mut Hyper::default()).unwrap();
        Wanted::of(&config, entry, &built)
    }

    #[test]
    fn metrics_are_found_for_each_label() {
        assert!(wanted("dnn", "metrics: [auc]").unwrap().is_empty());
        let one = wanted("dnn", "metrics: [auc, logloss, gauc], metric_group: 3").unwrap();
        assert_eq!(one.names(), ["logloss", "gauc"]);
        assert_eq!((one.targets[0].column, one.targets[0].label, one.group), (1, 0, Some(3)));
        assert_eq!(one.of_training().names(), ["logloss"]);
        let two = wanted("esmm", "metrics: [logloss, pcoc]").unwrap();
        assert_eq!(two.names(), ["logloss_ctr", "pcoc_ctr", "logloss_ctcvr", "pcoc_ctcvr"]);
        assert_eq!((two.targets[1].column, two.targets[0].column), (1, 0));
        for (model, keys, words) in [
            ("dnn", "metrics: [loss]", "names `loss`, which is no metric: use auc, logloss"),
            ("dnn", "metrics: [gauc]", "say by which slot, `runner.metric_group`"),
            ("dnn", "metrics: [gauc], metric_group: user", "has no such slot"),
            ("dnn", "metric_group: 3", "has no effect"),
            ("dssm", "metrics: [logloss]", "dssm has none"),
        ] {
            let error = wanted(model, keys).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn every_model_with_labels_has_metrics() {
        for entry in zoo::entries().iter().filter(|entry| !entry.labels.is_empty()) {
            let wanted = wanted(entry.name, "metrics: [logloss]").unwrap();
            assert_eq!(wanted.targets.len(), entry.labels.len(), "{}", entry.name);
        }
    }

    #[test]
    fn metrics_know_their_direction() {
        assert_eq!(more_is_better("auc_ctr"), Some(true));
        assert_eq!(more_is_better("logloss"), Some(false));
        assert_eq!(more_is_better("loss"), Some(false));
        assert_eq!(more_is_better("pcoc"), None);
    }
}
