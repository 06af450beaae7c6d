//! Which epoch was the best on the validation data, and when it is time to stop. `best` in the folder
//! of the models names it, for `infer` and `predict`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bireme_engine::io;
use serde::{Deserialize, Serialize};

use super::exact;
use super::scores::{self, LOSS};
use crate::config::Config;
use crate::{Error, Result};

/// The file, in the folder of the models.
const NAME: &str = "best";
const METRIC: &str = "runner.early_stop.metric";
const OF_SEARCH: &str = "tune.metric";
const PATIENCE: &str = "runner.early_stop.patience";
const MIN_DELTA: &str = "runner.early_stop.min_delta";

/// The best epoch so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Which one.
    pub epoch: u64,
    /// By which metric of the validation.
    pub metric: String,
    /// Its value.
    #[serde(with = "exact")]
    pub value: f64,
}

/// What decides which epoch is the best, and when to stop.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judge {
    metric: String,
    more_is_better: bool,
    min_delta: f64,
    /// Epochs without a better one after which training ends; none to train all.
    patience: Option<u64>,
}

impl Judge {
    /// What a configuration says; `names` are the metrics that there are.
    ///
    /// # Errors
    /// When the metric does not exist, or tells nothing by its size; when there is no validation.
    pub(super) fn of(config: &Config, names: &[String], validates: bool) -> Result<Option<Judge>> {
        let set = [METRIC, PATIENCE, MIN_DELTA].into_iter().find(|key| config.has(key));
        if !validates {
            return match set {
                None => Ok(None),
                Some(key) => {
                    let problem = "needs data to validate on: set `runner.valid_data_dir`";
                    Err(config.refuse(key, problem))
                }
            };
        }
        let (metric, more_is_better) = metric_of(config, METRIC, names)?;
        let min_delta = config.number(MIN_DELTA);
        if !(min_delta.is_finite() && min_delta >= 0.0) {
            return Err(config.refuse(MIN_DELTA, format!("must be at least 0, not {min_delta}")));
        }
        if config.has(PATIENCE) && config.count(PATIENCE) == 0 {
            return Err(config.refuse(PATIENCE, "must be at least 1"));
        }
        let patience = set.map(|_| config.count(PATIENCE) as u64);
        Ok(Some(Judge { metric, more_is_better, min_delta, patience }))
    }

    /// The best epoch, after one with these values.
    pub(super) fn judge(
        &self,
        best: Option<Best>,
        epoch: u64,
        values: &BTreeMap<String, f64>,
    ) -> Option<Best> {
        let value = values.get(&self.metric).copied().filter(|value| !value.is_nan());
        let Some(value) = value else { return best };
        let is_better = |best: &Best| match self.more_is_better {
            true => value > best.value + self.min_delta,
            false => value < best.value - self.min_delta,
        };
        match best {
            // Another metric than before the run was resumed: values cannot be compared.
            Some(best) if best.metric == self.metric && !is_better(&best) => Some(best),
            _ => Some(Best { epoch, metric: self.metric.clone(), value }),
        }
    }

    /// Whether to train no further when `epochs` have been trained.
    pub(super) fn is_over(&self, best: Option<&Best>, epochs: u64) -> bool {
        let without = |best: &Best| epochs.saturating_sub(best.epoch + 1);
        self.patience.zip(best).is_some_and(|(patience, best)| without(best) >= patience)
    }

    /// What ended a training.
    pub(super) fn why(&self, best: &Best) -> String {
        format!(
            "training stops early: {} has not got better than {:.6} of epoch {} for {} epochs",
            best.metric,
            best.value,
            best.epoch,
            self.patience.unwrap_or_default()
        )
    }
}

/// The metric that a search is about: its own, or that of the early end.
///
/// # Errors
/// When it does not exist, or tells nothing by its size.
pub(super) fn metric_of_search(config: &Config, names: &[String]) -> Result<(String, bool)> {
    let key = if config.has(OF_SEARCH) { OF_SEARCH } else { METRIC };
    metric_of(config, key, names)
}

/// The metric that a key names, the first one by default, and whether more of it is better.
fn metric_of(config: &Config, key: &str, names: &[String]) -> Result<(String, bool)> {
    let metric = match config.text(key) {
        own if !own.is_empty() => own,
        _ => names.first().cloned().unwrap_or_else(|| LOSS.to_owned()),
    };
    if metric != LOSS && !names.contains(&metric) {
        let known = names.join(", ");
        let problem = format!(
            "is `{metric}`, which is not computed: use {LOSS}, {known}, or add it to `runner.metrics`"
        );
        return Err(config.refuse(key, problem));
    }
    match scores::more_is_better(&metric) {
        Some(more_is_better) => Ok((metric, more_is_better)),
        None => {
            let problem = format!("is `{metric}`, of which neither more nor less is better");
            Err(config.refuse(key, problem))
        }
    }
}

impl Best {
    /// The best epoch of the models in a folder; none where no training has named one.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Best>> {
        let path = folder.join(NAME);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file(path, error)),
        };
        let read = serde_json::from_slice(&text);
        read.map(Some).map_err(|error| Error::file(path, format!("it names no epoch: {error}")))
    }

    /// Names it.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(NAME);
        let text = serde_json::to_vec_pretty(self).map_err(|error| Error::file(&path, error))?;
        Ok(io::write_file(path, |out| out.write_all(&text))?)
    }
}

/// Forgets which epoch was the best of a training before this one.
pub(super) fn forget(folder: &Path) -> Result<()> {
    let path = folder.join(NAME);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file(path, format!("cannot remove it: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(keys: &str) -> Result<Option<Judge>> {
        let text = format!("runner: {{{keys}}}");
        let config = Config::parse(Path::new("a.yaml"), &text, &[]).unwrap();
        Judge::of(&config, &["auc".to_owned(), "pcoc".to_owned()], !keys.contains("alone"))
    }

    fn values(auc: f64) -> BTreeMap<String, f64> {
        [("auc".to_owned(), auc), (LOSS.to_owned(), 1.0 - auc)].into()
    }

    #[test]
    fn training_ends_when_nothing_gets_better() {
        let judge = judge("early_stop: {patience: 2, min_delta: 0.01}").unwrap().unwrap();
        let mut best = None;
        let mut over = Vec::new();
        for (epoch, auc) in [(0, 0.6), (1, 0.7), (2, 0.705), (3, 0.69)] {
            best = judge.judge(best, epoch, &values(auc));
            over.push(judge.is_over(best.as_ref(), epoch + 1));
        }
        assert_eq!(over, [false, false, false, true]);
        let best = best.unwrap();
        assert_eq!((best.epoch, best.value), (1, 0.7));
        assert!(judge.why(&best).contains("than 0.700000 of epoch 1 for 2 epochs"));
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Best::read(folder.path()).unwrap(), None);
        best.write(folder.path()).unwrap();
        assert_eq!(Best::read(folder.path()).unwrap(), Some(best));
        forget(folder.path()).unwrap();
        assert_eq!(Best::read(folder.path()).unwrap(), None);
    }

    #[test]
    fn the_metric_is_the_first_or_the_one_that_is_named() {
        let plain = judge("epochs: 3").unwrap().unwrap();
        assert_eq!((plain.metric.as_str(), plain.patience), ("auc", None));
        let loss = judge("early_stop: {metric: loss}").unwrap().unwrap();
        assert_eq!((loss.patience, loss.more_is_better), (Some(3), false));
        let first = loss.judge(None, 0, &values(0.6));
        assert_eq!(loss.judge(first, 1, &values(0.5)).unwrap().epoch, 0);
        for (keys, words) in [
            ("alone: 1, early_stop: {patience: 1}", "set `runner.valid_data_dir`"),
            ("early_stop: {metric: rmse}", "is not computed: use loss, auc, pcoc"),
            ("early_stop: {metric: pcoc}", "neither more nor less"),
            ("early_stop: {patience: 0}", "must be at least 1"),
            ("early_stop: {min_delta: -1.0}", "must be at least 0"),
        ] {
            let error = judge(keys).unwrap_err().to_string();
            assert!(error.contains(words), "{keys}: {error}");
        }
    }
}
