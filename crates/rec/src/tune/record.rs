//! What the trials of a search have brought, in a file that grows by a line for each: a search that
//! was stopped reads it and goes on.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::report;
use crate::run::Event;
use crate::{Error, Result};

/// The file of the trials in the folder of a search; its first line says which search it is.
const NAME: &str = "trials.jsonl";

/// What all trials of a search have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// Decides the values of all trials.
    pub seed: u64,
    /// By which metric of the validation they are compared.
    pub metric: String,
    /// Keys and ranges, as the configuration has them.
    pub ranges: BTreeMap<String, String>,
}

/// A trial that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// Its number, from 0.
    pub trial: u64,
    /// Its values, by key.
    pub values: Vec<(String, String)>,
    /// The best value of the metric; none where the trial failed.
    pub best: Option<f64>,
    /// The epoch that had it.
    pub epoch: u64,
    /// The metric after each epoch.
    pub curve: Vec<(u64, f64)>,
    /// How long it took.
    pub seconds: f64,
    /// Why it failed; empty where it did not.
    #[serde(default)]
    pub problem: String,
}

impl Ended {
    /// What the event log in a trial's folder says; `values` are those of the trial.
    ///
    /// # Errors
    /// When there is no such log, or no validation in it.
    pub fn read(
        run: &Path,
        (trial, values): (u64, Vec<(String, String)>),
        (metric, more_is_better): (&str, bool),
        seconds: f64,
    ) -> Result<Ended> {
        let log = report::read(run)?;
        let events = log.trainers.first().map_or(&[][..], |trained| &trained.events);
        let validated = events.iter().filter_map(|event| match event {
            Event::Valid { epoch, metrics, .. } => Some((*epoch, *metrics.get(metric)?)),
            _ => None,
        });
        let curve: Vec<(u64, f64)> = validated.collect();
        let better = |one: &(u64, f64), other: &(u64, f64)| {
            let order = one.1.total_cmp(&other.1);
            // Of epochs that are as good, the first.
            if more_is_better {
                order.then(other.0.cmp(&one.0))
            } else {
                order.reverse().then(other.0.cmp(&one.0))
            }
        };
        let Some((epoch, best)) = curve.iter().copied().max_by(better) else {
            return Err(Error::file(run, format!("no validation has computed `{metric}`")));
        };
        Ok(Ended { trial, values, best: Some(best), epoch, curve, seconds, problem: String::new() })
    }

    /// One that failed.
    pub fn failed(
        (trial, values): (u64, Vec<(String, String)>),
        problem: String,
        seconds: f64,
    ) -> Ended {
        Ended { trial, values, best: None, epoch: 0, curve: Vec::new(), seconds, problem }
    }
}

/// The trials of a search.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    /// Those that have ended, in the order of their ends.
    pub ended: Vec<Ended>,
}

impl Records {
    /// The trials in a folder, which is made if need be.
    ///
    /// # Errors
    /// When they are of another search, or the file cannot be read or written.
    pub fn open(folder: &Path, search: &Search) -> Result<Records> {
        let path = folder.join(NAME);
        let failed = |error: std::io::Error| Error::file(&path, error);
        fs::create_dir_all(folder).map_err(failed)?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::file(&path, error)),
        };
        let mut records = Records { path: path.clone(), ended: Vec::new() };
        let mut lines = text.lines();
        let Some(first) = lines.next() else {
            records.append(search)?;
            return Ok(records);
        };
        let there: Search = serde_json::from_str(first)
            .map_err(|error| Error::file(&path, format!("its first line is no search: {error}")))?;
        if there != *search {
            return Err(Error::file(
                folder,
                format!(
                    "has trials of another search ({}): take another `--output`, or remove it",
                    differences(&there, search)
                ),
            ));
        }
        // What was killed may have left half a line, which is a trial to be made again.
        records.ended = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !text.ends_with('\n') {
            OpenOptions::new()
                .append(true)
                .open(&path)
                .and_then(|mut file| file.write_all(b"\n"))
                .map_err(failed)?;
        }
        // Those that failed are tried again.
        records.ended.retain(|ended: &Ended| ended.best.is_some());
        Ok(records)
    }

    /// Whether a trial has ended well.
    pub fn has(&self, trial: u64) -> bool {
        self.ended.iter().any(|ended| ended.trial == trial)
    }

    /// Adds a trial.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&mut self, ended: Ended) -> Result<()> {
        self.append(&ended)?;
        self.ended.push(ended);
        Ok(())
    }

    /// All trials, the best first, then those that failed.
    pub fn sorted(&self, more_is_better: bool) -> Vec<&Ended> {
        let mut sorted: Vec<&Ended> = self.ended.iter().collect();
        sorted.sort_by(|one, other| {
            let order = match (one.best, other.best) {
                (Some(one), Some(other)) if more_is_better => other.total_cmp(&one),
                (Some(one), Some(other)) => one.total_cmp(&other),
                (one, other) => other.is_some().cmp(&one.is_some()),
            };
            order.then(one.trial.cmp(&other.trial))
        });
        sorted
    }

    fn append(&self, line: &impl Serialize) -> Result<()> {
        let failed = |error: std::io::Error| Error::file(&self.path, error);
        let mut text = serde_json::to_vec(line).map_err(|error| Error::file(&self.path, error))?;
        text.push(b'\n');
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(&text)).map_err(failed)
    }
}

/// What differs between two searches, in words.
fn differences(there: &Search, here: &Search) -> String {
    let mut all = Vec::new();
    if there.seed != here.seed {
        all.push(format!("seed {} there, {} here", there.seed, here.seed));
    }
    if there.metric != here.metric {
        all.push(format!("metric {} there, {} here", there.metric, here.metric));
    }
    if there.ranges != here.ranges {
        all.push("other ranges".to_owned());
    }
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(seed: u64) -> Search {
        Search { seed, metric: "auc".to_owned(), ranges: BTreeMap::new() }
    }

    fn ended(trial: u64, best: f64) -> Ended {
        let values = vec![("a".to_owned(), "1".to_owned())];
        let curve = vec![(0, best)];
        let problem = String::new();
        Ended { trial, values, best: Some(best), epoch: 0, curve, seconds: 1.5, problem }
    }

    #[test]
    fn a_search_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(folder.path(), &search(1)).unwrap();
        records.add(ended(0, 0.7)).unwrap();
        records.add(ended(1, 0.8)).unwrap();
        records.add(Ended::failed((2, Vec::new()), "no".to_owned(), 0.1)).unwrap();
        let order: Vec<u64> = records.sorted(true).iter().map(|ended| ended.trial).collect();
        assert_eq!(order, [1, 0, 2]);
        let path = folder.path().join(NAME);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text + "{\"trial\": 3, ").unwrap();
        let mut again = Records::open(folder.path(), &search(1)).unwrap();
        assert_eq!(again.ended.len(), 2);
        assert!(again.has(1) && !again.has(2));
        again.add(ended(3, 0.5)).unwrap();
        assert_eq!(Records::open(folder.path(), &search(1)).unwrap().ended.len(), 3);
        let order: Vec<u64> = again.sorted(false).iter().map(|ended| ended.trial).collect();
        assert_eq!(order, [3, 0, 1]);
        let error = Records::open(folder.path(), &search(2)).unwrap_err().to_string();
        assert!(error.contains("another search (seed 1 there, 2 here)"), "{error}");
    }
}
