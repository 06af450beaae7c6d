//! What a checkpoint says about the run that made it: how it was set up, and how far it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::sums::{self, FileSum};
use crate::run::scores::Sums;
use crate::run::{Best, Epoch, exact};
use crate::{Error, Result};

/// Differences that an error names; a model of another shape has many.
const NAMED: usize = 4;

/// What all trainers together have done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::run) struct State {
    /// The number of the first checkpoint of this run.
    #[serde(default)]
    pub(super) first: u64,
    /// What must be the same for a run that goes on.
    pub(super) setup: Setup,
    /// What each trainer has done.
    pub(in crate::run) trainers: Vec<Position>,
    /// The other files of the checkpoint.
    pub(super) files: Vec<FileSum>,
}

/// What must be the same for a run that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct Setup {
    pub(in crate::run) model: String,
    pub(in crate::run) mode: String,
    pub(in crate::run) trainers: usize,
    pub(in crate::run) threads: usize,
    pub(in crate::run) batch_size: usize,
    pub(in crate::run) seed: u64,
    pub(in crate::run) optimizer: String,
    /// Type and shape of each parameter, by name.
    pub(in crate::run) parameters: BTreeMap<String, String>,
    /// The hyper parameters of the model; none in checkpoints that do not know them.
    #[serde(default)]
    pub(in crate::run) hyper_parameters: BTreeMap<String, String>,
    /// In what order samples come; checkpoints that do not say it are of runs that shuffled nothing.
    #[serde(default = "not_shuffled")]
    pub(in crate::run) shuffle: String,
}

fn not_shuffled() -> String {
    "none".to_owned()
}

/// What one trainer has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::run) struct Position {
    /// The number of this checkpoint.
    pub(in crate::run) number: u64,
    /// The epoch that is being trained.
    pub(in crate::run) epoch: u64,
    /// Batches of it that each training thread has trained.
    pub(in crate::run) taken: Vec<u64>,
    /// Portions of the run that were trained: random numbers depend on it.
    pub(in crate::run) portions: u64,
    /// Batches of the whole run.
    pub(in crate::run) batches: u64,
    /// Samples of this epoch.
    pub(in crate::run) samples: u64,
    /// The sum of the losses of this epoch's batches.
    #[serde(with = "exact")]
    pub(in crate::run) loss: f64,
    /// How many batches that are.
    pub(in crate::run) losses: u64,
    /// Seconds spent on this epoch.
    pub(in crate::run) seconds: f64,
    /// Sums of this epoch's metrics, of each thing that the model predicts.
    #[serde(default)]
    pub(in crate::run) sums: Vec<Sums>,
    /// The best of the epochs before.
    #[serde(default)]
    pub(in crate::run) best: Option<Best>,
    /// What came out of the epochs before.
    pub(in crate::run) epochs: Vec<Epoch>,
}

/// What one trainer adds to a checkpoint.
#[derive(Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) position: Position,
    /// The files that it wrote.
    pub(super) files: Vec<FileSum>,
}

impl State {
    /// Reads the state of a checkpoint; an error in words where it is damaged.
    ///
    /// # Errors
    /// When a file that is there cannot be read.
    pub(super) fn read(path: &Path) -> Result<std::result::Result<State, String>> {
        let bytes = fs::read(path).map_err(|error| Error::file(path, error))?;
        Ok(State::parse(&bytes))
    }

    fn parse(bytes: &[u8]) -> std::result::Result<State, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
        if let Some(problem) = sums::broken_seal(text) {
            return Err(problem.to_owned());
        }
        let state: State = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let (listed, said) = (state.trainers.len(), state.setup.trainers);
        match listed == said && said > 0 {
            true => Ok(state),
            false => Err(format!("it has {listed} trainers, and says {said}")),
        }
    }

    /// The text of the file.
    ///
    /// # Errors
    /// When JSON cannot say it.
    pub(super) fn text(&self) -> serde_json::Result<String> {
        Ok(sums::sealed(&serde_json::to_string_pretty(self)?))
    }
}

impl Setup {
    /// What a run that is set up like `here` has otherwise, in words; nothing where it may go on.
    pub(super) fn differences(&self, here: &Setup) -> Option<String> {
        let mut all = Vec::new();
        let mut compare = |what: &str, then: String, now: String| {
            if then != now {
                all.push(format!("{what} {then} in the checkpoint, {now} here"));
            }
        };
        compare("model", self.model.clone(), here.model.clone());
        compare("optimizer", self.optimizer.clone(), here.optimizer.clone());
        compare("mode", self.mode.clone(), here.mode.clone());
        compare("trainers", self.trainers.to_string(), here.trainers.to_string());
        compare("threads", self.threads.to_string(), here.threads.to_string());
        compare("batch size", self.batch_size.to_string(), here.batch_size.to_string());
        compare("seed", self.seed.to_string(), here.seed.to_string());
        compare("shuffle", self.shuffle.clone(), here.shuffle.clone());
        compare_all("parameter", &self.parameters, &here.parameters, &mut compare);
        // A checkpoint of an older version lacks those that models were given since.
        let then = &self.hyper_parameters;
        let now = here.hyper_parameters.iter().filter(|(name, _)| then.contains_key(*name));
        let now = now.map(|(name, value)| (name.clone(), value.clone())).collect();
        compare_all("hyper parameter", then, &now, &mut compare);
        let more = match all.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        all.truncate(NAMED);
        (!all.is_empty()).then(|| all.join("; ") + &more)
    }
}

/// Compares the values of all names.
fn compare_all(
    what: &str,
    then: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
    compare: &mut impl FnMut(&str, String, String),
) {
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let value = |of: &BTreeMap<String, String>, name: &String| {
        of.get(name).cloned().unwrap_or_else(|| "nothing".to_owned())
    };
    for name in names {
        compare(&format!("{what} `{name}`"), value(then, name), value(now, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        Setup {
            model: "dnn".to_owned(),
            mode: "local".to_owned(),
            trainers: 1,
            threads: 1,
            batch_size: 20,
            seed: 3,
            optimizer: "adam".to_owned(),
            parameters: [("w".to_owned(), "float32 [4, 2]".to_owned())].into(),
            hyper_parameters: [("act".to_owned(), "relu".to_owned())].into(),
            shuffle: not_shuffled(),
        }
    }

    #[test]
    fn differences_name_both_sides() {
        let then = setup();
        assert_eq!(then.differences(&setup()), None);
        let now = Setup {
            optimizer: "sgd".to_owned(),
            parameters: [("w".to_owned(), "float32 [4, 3]".to_owned())].into(),
            ..setup()
        };
        assert_eq!(
            then.differences(&now).unwrap(),
            "optimizer adam in the checkpoint, sgd here; parameter `w` float32 [4, 2] in the \
             checkpoint, float32 [4, 3] here"
        );
        let other = [("act".to_owned(), "tanh".to_owned())].into();
        let text = then.differences(&Setup { hyper_parameters: other, ..setup() }).unwrap();
        assert_eq!(text, "hyper parameter `act` relu in the checkpoint, tanh here");
        let old = Setup { hyper_parameters: BTreeMap::new(), ..setup() };
        assert_eq!(old.differences(&setup()), None, "an older version did not know it");
        let many = (0..9).map(|number| (number.to_string(), String::new()));
        let text = then.differences(&Setup { parameters: many.collect(), ..setup() }).unwrap();
        assert!(text.ends_with("; and 6 more"), "{text}");
    }

    #[test]
    fn a_state_comes_back_and_damage_to_it_is_found() {
        let position = Position { loss: 0.1 + 0.2, taken: vec![3], ..Position::default() };
        let state = State { first: 2, setup: setup(), trainers: vec![position], files: Vec::new() };
        let text = state.text().unwrap();
        assert_eq!(State::parse(text.as_bytes()).unwrap(), state);
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(State::parse(&bytes).map_or(true, |found| found == state), "bit {bit}");
        }
        for cut in 0..text.len() - 1 {
            assert!(State::parse(&text.as_bytes()[..cut]).is_err(), "cut at {cut}");
        }
    }
}
