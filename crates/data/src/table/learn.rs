//! One pass over training data: words and how often they occur, and how numbers are distributed.
//!
//! Every file is learned by itself and the outcomes are added up in the order of the files, so that
//! threads do not matter. What goes into a pass depends on the data alone.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::cells::{Cells, Use};
use super::encode::{WordHasher, label, logarithm, number_or_none, weight};
use super::hash::hash;
use super::learned::{Becomes, FileMark, Learned};
use super::settings::{Bins, Feature, Fill, Number, Rule, Scale, Settings, Words};
use crate::{Error, Result};

/// Numbers of a file that quantiles are found from; of a longer one they are drawn.
const DRAWN: usize = 1 << 17;

type Counts = HashMap<Box<[u8]>, u64, BuildHasherDefault<WordHasher>>;

/// What some rows have.
#[derive(Clone, Debug)]
pub(crate) struct Learner {
    settings: Settings,
    samples: u64,
    positive: u64,
    features: Vec<Facts>,
}

#[derive(Clone, Debug)]
enum Facts {
    Nothing,
    Words(Counts),
    Numbers(Numbers),
}

/// How numbers are distributed.
#[derive(Clone, Debug, Default)]
struct Numbers {
    log: bool,
    count: u64,
    missing: u64,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
    /// The mean before any logarithm.
    plain_mean: f64,
    least: f64,
    largest: f64,
    /// For quantiles.
    drawn: Option<Vec<f64>>,
}

impl Learner {
    /// Nothing seen yet.
    pub(crate) fn new(settings: &Settings) -> Learner {
        let facts = |feature: &Feature| match &feature.rule {
            Rule::Word(Words::Vocabulary { .. }) | Rule::List(_, Words::Vocabulary { .. }) => {
                Facts::Words(Counts::default())
            }
            Rule::Word(_) | Rule::List(..) => Facts::Nothing,
            Rule::Bins(Bins::Edges(_)) => Facts::Numbers(Numbers::default()),
            Rule::Bins(Bins::Quantiles(_)) => {
                Facts::Numbers(Numbers { drawn: Some(Vec::new()), ..Numbers::default() })
            }
            Rule::Number(number) => {
                Facts::Numbers(Numbers { log: number.scale == Scale::Log, ..Numbers::default() })
            }
        };
        let features = settings.features.iter().map(facts).collect();
        Learner { settings: settings.clone(), samples: 0, positive: 0, features }
    }

    /// What it takes cells for.
    pub(super) fn uses(&self) -> Vec<Use> {
        let weight = self.settings.weight.as_ref().map(|_| Use::Weight);
        let features = (0..self.settings.features.len()).map(Use::Feature);
        [Use::Label].into_iter().chain(weight).chain(features).collect()
    }

    /// Adds what the rows have that come behind these.
    pub(crate) fn add(&mut self, other: Learner) {
        self.samples += other.samples;
        self.positive += other.positive;
        for (here, there) in self.features.iter_mut().zip(other.features) {
            match (here, there) {
                (Facts::Words(here), Facts::Words(there)) => {
                    there
                        .into_iter()
                        .for_each(|(word, count)| *here.entry(word).or_default() += count);
                }
                (Facts::Numbers(here), Facts::Numbers(there)) => here.add(there),
                _ => {}
            }
        }
    }

    /// What was learned.
    ///
    /// # Errors
    /// When there was no sample, all labels are the same, or a column has no number at all.
    pub(crate) fn finish(self, files: Vec<FileMark>) -> Result<Learned> {
        let Learner { settings, samples, positive, features } = self;
        if samples == 0 {
            return Err(Error::Settings("there is no sample in the training data".into()));
        }
        if positive == 0 || positive == samples {
            let always = u8::from(positive > 0);
            return Err(Error::Settings(format!(
                "all {samples} samples of the training data have the label {always} in column `{}`: \
                 there is nothing to learn",
                settings.label.column
            )));
        }
        let both = settings.features.iter().zip(features);
        let becomes = both.map(|(feature, facts)| becomes(feature, facts));
        let becomes = becomes.collect::<Result<Vec<_>>>()?;
        Ok(Learned::new(settings, files, (samples, positive), becomes))
    }
}

impl Learned {
    /// For settings that need no look at the data.
    pub fn without_data(settings: Settings) -> Learned {
        let facts = |feature: &Feature| match &feature.rule {
            Rule::Bins(Bins::Edges(edges)) => Becomes::Range { first: 0, edges: edges.clone() },
            Rule::Number(Number { fill, .. }) => {
                let fill = if let Fill::Value(value) = fill { *value } else { 0.0 };
                let (least, largest) = (0.0, 0.0);
                let (center, factor, missing) = (0.0, 1.0, 0);
                Becomes::Number { log: false, center, factor, fill, missing, least, largest }
            }
            Rule::Bins(_) | Rule::Word(_) | Rule::List(..) => Becomes::Hash,
        };
        let becomes = settings.features.iter().map(facts).collect();
        Learned::new(settings, Vec::new(), (0, 0), becomes)
    }
}

impl Cells for Learner {
    #[inline(always)]
    fn cell(&mut self, of: Use, cell: &[u8]) -> std::result::Result<(), String> {
        let at = match of {
            Use::Label => {
                self.positive += u64::from(label(&self.settings.label, cell)?);
                self.samples += 1;
                return Ok(());
            }
            Use::Weight => {
                let column = self.settings.weight.as_deref().unwrap_or_default();
                return weight(column, cell).map(drop);
            }
            Use::Feature(at) => at,
        };
        let Feature { column, rule } = &self.settings.features[at];
        match &mut self.features[at] {
            Facts::Nothing => {}
            Facts::Words(counts) => match rule {
                Rule::List(separator, _) => {
                    let separator = *separator as u8;
                    let words = cell.split(|byte| *byte == separator).map(<[u8]>::trim_ascii);
                    let mut words = words.filter(|word| !word.is_empty()).peekable();
                    if words.peek().is_none() {
                        count(counts, b"");
                    }
                    words.for_each(|word| count(counts, word));
                }
                _ => count(counts, cell),
            },
            Facts::Numbers(numbers) => {
                match number_or_none(column, cell, &self.settings.missing)? {
                    Some(value) => numbers.take(value),
                    None => numbers.missing += 1,
                }
            }
        }
        Ok(())
    }
}

#[inline(always)]
fn count(counts: &mut Counts, word: &[u8]) {
    match counts.get_mut(word) {
        Some(count) => *count += 1,
        None => {
            counts.insert(word.into(), 1);
        }
    }
}

impl Numbers {
    #[inline(always)]
    fn take(&mut self, value: f64) {
        if self.count == 0 {
            (self.least, self.largest) = (value, value);
        }
        (self.least, self.largest) = (self.least.min(value), self.largest.max(value));
        self.count += 1;
        let size = if self.log { logarithm(value) } else { value };
        let distance = size - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (size - self.mean);
        self.plain_mean += (value - self.plain_mean) / self.count as f64;
        if let Some(drawn) = &mut self.drawn {
            if drawn.len() < DRAWN {
                drawn.push(value);
            } else {
                // Each number so far is there with the same chance.
                let at = hash(self.count, b"drawn") % self.count;
                if (at as usize) < DRAWN {
                    drawn[at as usize] = value;
                }
            }
        }
    }

    fn add(&mut self, other: Numbers) {
        self.missing += other.missing;
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            let missing = self.missing;
            *self = Numbers { missing, ..other };
            return;
        }
        let (here, there) = (self.count as f64, other.count as f64);
        let (all, distance) = (here + there, other.mean - self.mean);
        self.squares += other.squares + distance * distance * here * there / all;
        self.mean += distance * there / all;
        self.plain_mean += (other.plain_mean - self.plain_mean) * there / all;
        self.least = self.least.min(other.least);
        self.largest = self.largest.max(other.largest);
        self.count += other.count;
        if let (Some(here), Some(there)) = (&mut self.drawn, other.drawn) {
            here.extend(there);
        }
    }

    fn spread(&self) -> f64 {
        (self.squares / self.count as f64).sqrt()
    }

    /// Edges between ranges with about as many numbers in each; fewer where numbers repeat.
    fn quantiles(&self, ranges: usize) -> Vec<f64> {
        let mut sorted = self.drawn.clone().unwrap_or_default();
        sorted.sort_unstable_by(f64::total_cmp);
        let place = |range: usize| sorted[range * sorted.len() / ranges];
        let mut edges: Vec<f64> = (1..ranges).map(place).collect();
        edges.dedup();
        // Nothing lies below the least number.
        edges.retain(|&edge| edge > self.least);
        edges
    }
}

fn becomes(feature: &Feature, facts: Facts) -> Result<Becomes> {
    let none = |numbers: &Numbers| {
        let problem = format!(
            "column `{}` has no number in all {} samples: leave it out, or put it under `data.sparse`",
            feature.column, numbers.missing
        );
        if numbers.count == 0 { Err(Error::Settings(problem)) } else { Ok(()) }
    };
    Ok(match (&feature.rule, facts) {
        (Rule::Word(words) | Rule::List(_, words), Facts::Words(counts)) => {
            let Words::Vocabulary { min_count } = words else { return Ok(Becomes::Hash) };
            vocabulary(counts, *min_count)
        }
        (Rule::Bins(Bins::Edges(edges)), _) => Becomes::Range { first: 0, edges: edges.clone() },
        (Rule::Bins(Bins::Quantiles(ranges)), Facts::Numbers(numbers)) => {
            none(&numbers)?;
            Becomes::Range { first: 0, edges: numbers.quantiles(*ranges) }
        }
        (Rule::Number(number), Facts::Numbers(numbers)) => {
            none(&numbers)?;
            scaled(number, &numbers)
        }
        _ => Becomes::Hash,
    })
}

fn vocabulary(counts: Counts, min_count: u64) -> Becomes {
    let mut rare = 0;
    let mut kept: Vec<(u64, String)> = Vec::new();
    for (word, count) in counts {
        // What is no text cannot stand in the file.
        match String::from_utf8(word.into_vec()) {
            Ok(word) if count >= min_count => kept.push((count, word)),
            _ => rare += 1,
        }
    }
    kept.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let words = kept.into_iter().map(|(_, word)| word).collect();
    Becomes::Vocabulary { first: 0, rare, words }
}

fn scaled(number: &Number, numbers: &Numbers) -> Becomes {
    let whole = |spread: f64| if spread > 0.0 { 1.0 / spread } else { 1.0 };
    let (center, factor) = match number.scale {
        Scale::None => (0.0, 1.0),
        Scale::Standard | Scale::Log => (numbers.mean, whole(numbers.spread())),
        Scale::MinMax => (numbers.least, whole(numbers.largest - numbers.least)),
    };
    let fill = match number.fill {
        Fill::Mean => numbers.plain_mean,
        Fill::Value(value) => value,
    };
    Becomes::Number {
        log: numbers.log,
        center,
        factor,
        fill,
        missing: numbers.missing,
        least: numbers.least,
        largest: numbers.largest,
    }
}
