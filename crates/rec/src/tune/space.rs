//! The ranges of a search, and the values that a trial draws from them.

use bireme_engine::random::Philox;

use super::PREFIX;
use crate::config::{Config, Node, Value, keys, python_float};
use crate::{Error, Result};

/// Keys of a trial that its folder decides.
const OWN: [&str; 3] = ["runner.model_save_path", "runner.run_path", "runner.checkpoint_path"];
/// How ranges are written.
const FORMS: [&str; 4] = ["uniform", "log", "int", "choice"];
/// Keys below `tune` that are no ranges.
const SETTINGS: [&str; 1] = ["metric"];
/// Combinations of choices up to which none is tried twice.
const MOST_LISTED: u64 = 1 << 16;

/// Where the values of a key come from.
#[derive(Clone, Debug, PartialEq)]
enum Range {
    /// Between two numbers.
    Uniform(f64, f64),
    /// Between two numbers, each order of magnitude as likely as another.
    Log(f64, f64),
    /// Whole numbers from one to another, both included.
    Int(i64, i64),
    /// One of these, as they are written.
    Choice(Vec<String>),
}

/// The ranges of a search, by key.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    ranges: Vec<(String, Range)>,
}

impl Space {
    /// The ranges under `tune` of a configuration.
    ///
    /// # Errors
    /// When there are none, or one is none; when a key does not exist.
    pub fn of(config: &Config) -> Result<Space> {
        let mut ranges = Vec::new();
        for (full, node) in config.values() {
            let Some(rest) = full.strip_prefix(PREFIX).filter(|rest| !SETTINGS.contains(rest))
            else {
                continue;
            };
            let refuse = |problem: String| Err(config.refuse(full, problem));
            let of_form = rest.rsplit_once('.').filter(|(_, form)| FORMS.contains(form));
            let Some((key, form)) = of_form else {
                let problem = "is no range: write `KEY: {log: [1e-4, 1e-2]}`, or `uniform`, `int` or \
                               `choice` for `log`";
                return refuse(problem.to_owned());
            };
            if OWN.contains(&key) {
                return refuse(format!("is about `{key}`, which each trial has for itself"));
            }
            if keys::find(key).is_none() && !key.starts_with("hyper_parameters.") {
                return refuse(format!("is about `{key}`, which is no key"));
            }
            if ranges.iter().any(|(known, _)| known == key) {
                return refuse(format!("is a second range of `{key}`"));
            }
            match range(form, node) {
                Ok(range) => ranges.push((key.to_owned(), range)),
                Err(problem) => return refuse(problem),
            }
        }
        match ranges.is_empty() {
            false => Ok(Space { ranges }),
            true => Err(Error::Settings(format!(
                "{}: there is nothing to search: give keys their ranges under `tune`, as in `tune: \
                 {{hyper_parameters.optimizer.learning_rate: {{log: [1e-4, 1e-2]}}}}`",
                config.path().display()
            ))),
        }
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.ranges.iter().map(|(key, _)| key.as_str())
    }

    /// How many trials there are, where that is known.
    pub fn most(&self) -> Option<u64> {
        let count = |(_, range): &(String, Range)| match range {
            Range::Uniform(..) | Range::Log(..) => None,
            Range::Int(low, high) => u64::try_from(high - low).ok()?.checked_add(1),
            Range::Choice(values) => Some(values.len() as u64),
        };
        let all = self.ranges.iter().map(count).try_fold(1_u64, |all, n| all.checked_mul(n?))?;
        (all <= MOST_LISTED).then_some(all)
    }

    /// The values of a trial, by key. Where all values are choices, no two of the first
    /// [`Space::most`] trials are the same.
    pub fn trial(&self, seed: u64, number: u64) -> Vec<(String, String)> {
        let listed = self.most().map(|most| nth(seed, number, most));
        let mut rest = listed;
        let value = |(key, range): &(String, Range)| {
            let drawn = Philox::new(seed, &format!("trials of {key}")).stream(number).u64(0);
            // 53 bits, as many as a float holds.
            let share = (drawn >> 11) as f64 / (1_u64 << 53) as f64;
            let mut place = |count: u64| match &mut rest {
                Some(rest) => {
                    let place = *rest % count;
                    *rest /= count;
                    place
                }
                None => ((share * count as f64) as u64).min(count - 1),
            };
            let text = match range {
                Range::Uniform(low, high) => number_text(low + share * (high - low)),
                Range::Log(low, high) => {
                    number_text((low.ln() + share * (high.ln() - low.ln())).exp())
                }
                Range::Int(low, high) => {
                    let count = high.abs_diff(*low).saturating_add(1);
                    (low + place(count) as i64).to_string()
                }
                Range::Choice(values) => values[place(values.len() as u64) as usize].clone(),
            };
            (key.clone(), text)
        };
        self.ranges.iter().map(value).collect()
    }
}

/// Which of `most` combinations is the `number`th, in an order that the seed decides.
fn nth(seed: u64, number: u64, most: u64) -> u64 {
    let mut order: Vec<u64> = (0..most).collect();
    let numbers = Philox::new(seed, "order of trials");
    for last in (1..order.len()).rev() {
        let drawn = (u128::from(numbers.u64(last as u64)) * (last as u128 + 1)) >> 64;
        order.swap(last, drawn as usize);
    }
    order[(number % most) as usize]
}

/// Four digits: more tell no two trials apart, and are hard to read.
fn number_text(value: f64) -> String {
    let rounded = format!("{value:.3e}").parse().unwrap_or(value);
    python_float(rounded)
}

/// The range that is written in a form.
fn range(form: &str, node: &Node) -> std::result::Result<Range, String> {
    let Value::List(items) = &node.value else {
        return Err(format!("must be a list, not {}", node.value.describe()));
    };
    let number = |node: &Node| match &node.value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    let both = || match &items[..] {
        [low, high] => match (number(low), number(high)) {
            (Some(low), Some(high)) if low.is_finite() && high.is_finite() && low < high => {
                Ok((low, high))
            }
            _ => Err("must be two numbers, the smaller one first".to_owned()),
        },
        _ => Err("must be two numbers, the smaller one first".to_owned()),
    };
    match form {
        "uniform" => both().map(|(low, high)| Range::Uniform(low, high)),
        "log" => match both()? {
            (low, high) if low > 0.0 => Ok(Range::Log(low, high)),
            _ => Err("must be two numbers above 0".to_owned()),
        },
        "int" => match both()? {
            (low, high) if low.fract() == 0.0 && high.fract() == 0.0 => {
                Ok(Range::Int(low as i64, high as i64))
            }
            _ => Err("must be two whole numbers".to_owned()),
        },
        _ if items.is_empty() => Err("must have at least one value".to_owned()),
        _ => Ok(Range::Choice(items.iter().map(|item| item.value.to_string()).collect())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn space(keys: &str) -> Result<Space> {
        let text = format!("tune:\n  {keys}\n");
        Space::of(&Config::parse(Path::new("a.yaml"), &text, &[]).unwrap())
    }

    #[test]
    fn values_lie_in_their_ranges_and_depend_on_the_seed() {
        let space = space(
            "hyper_parameters.optimizer.learning_rate: {log: [1e-4, 1e-2]}\n  \
             hyper_parameters.dropout_rate: {uniform: [0, 0.5]}\n  \
             hyper_parameters.sparse_feature_dim: {int: [4, 6]}\n  \
             hyper_parameters.fc_sizes: {choice: [[64, 32], [16]]}\n  metric: auc",
        )
        .unwrap();
        assert_eq!((space.keys().count(), space.most()), (4, None));
        let mut rates = Vec::new();
        for number in 0..200 {
            let trial = space.trial(7, number);
            assert_eq!(trial, space.trial(7, number));
            let value = |key: &str| {
                let found = trial.iter().find(|(known, _)| known.ends_with(key)).unwrap();
                found.1.clone()
            };
            let rate: f64 = value("learning_rate").parse().unwrap();
            assert!((1e-4..=1e-2).contains(&rate), "{trial:?}");
            rates.push(rate);
            assert!((0.0..=0.5).contains(&value("dropout_rate").parse::<f64>().unwrap()));
            assert!(["4", "5", "6"].contains(&value("sparse_feature_dim").as_str()));
            assert!(["[64, 32]", "[16]"].contains(&value("fc_sizes").as_str()));
        }
        let small = rates.iter().filter(|rate| **rate < 1e-3).count();
        assert!((60..140).contains(&small), "half of the rates are small: {small}");
        assert_ne!(space.trial(7, 0), space.trial(8, 0));
    }

    #[test]
    fn choices_are_tried_once_each() {
        let keys =
            "runner.train_batch_size: {choice: [16, 32, 64]}\n  runner.epochs: {int: [1, 2]}";
        let space = space(keys).unwrap();
        assert_eq!(space.most(), Some(6));
        let all: BTreeSet<_> = (0..6).map(|number| space.trial(1, number)).collect();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for (keys, words) in [
            ("metric: auc", "there is nothing to search"),
            ("runner.epochs: 3", "is no range: write `KEY: {log: "),
            ("runner.epochs: {lots: [1, 2]}", "is no range"),
            ("runner.epochs: {int: 3}", "must be a list, not the number 3"),
            ("runner.epochs: {int: [2, 1]}", "the smaller one first"),
            ("runner.epochs: {int: [1.5, 2]}", "must be two whole numbers"),
            ("hyper_parameters.x: {log: [0, 1]}", "above 0"),
            ("runner.epoch: {int: [1, 2]}", "which is no key"),
            ("runner.model_save_path: {choice: [a]}", "which each trial has for itself"),
        ] {
            let error = space(keys).unwrap_err().to_string();
            assert!(error.contains(words), "{keys}: {error}");
        }
    }
}
