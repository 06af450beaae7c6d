//! Criteo-like clicks in the size of real data, which `bireme train` and the benchmarks train on:
//! skewed ids of up to 200,000 values a slot, and labels from a hidden logistic model, so that the
//! best possible result is known.
//!
//! Sample `i` depends only on the seed and on `i`. So the data is the same however many threads and
//! trainers make it, and a held-out set is simply a later range.

use std::ops::Range;
use std::sync::Arc;

use bireme_data::{Input, Rows, Samples, Slot, Values};
use bireme_engine::random::Philox;

use super::chance;
use super::draws::{Draws, Skew};
use crate::{Error, Result};

/// Slots of ids of a sample.
pub const SLOTS: usize = 26;
/// Dense features of a sample.
pub const DENSE: usize = 13;

/// How many values each slot has: those of Criteo's data, the big ones capped.
const VALUES: [usize; SLOTS] = [
    1_460, 583, 200_000, 200_000, 305, 24, 12_517, 633, 3, 93_145, 5_683, 200_000, 3_194, 27,
    14_992, 200_000, 10, 5_652, 2_173, 4, 200_000, 18, 15, 200_000, 105, 142_572,
];
/// The exponent of the power law that ids follow.
const EXPONENT: f64 = 1.05;
/// Spread of the hidden weight of one (slot, value).
const WEIGHT: f32 = 0.33;
/// The hidden model's intercept; gives about one click in five.
const INTERCEPT: f32 = -1.6;
/// Mean of a dense feature before some are dropped.
const DENSE_MEAN: f32 = 0.15;
/// Share of dense features that are 0.
const DENSE_ABSENT: f32 = 0.3;
const DENSE_MAX: f32 = 5.0;
/// Samples of one file of a [`Part`]; threads take files in turn.
const FILE: u64 = 1 << 16;

/// The hidden model, and the distribution of what it looks at.
#[derive(Debug)]
pub struct Source {
    seed: u64,
    rows: u64,
    ids: Vec<Ids>,
    dense_weights: [f32; DENSE],
}

/// The ids of one slot.
#[derive(Debug)]
struct Ids {
    /// Shared by slots of the same size.
    skew: Arc<Skew>,
    /// Hidden weight of each value.
    weights: Vec<f32>,
}

/// What is known of samples beside what a model sees.
#[derive(Debug, Default, PartialEq)]
pub struct Truth {
    /// 1 for a click.
    pub labels: Vec<u8>,
    /// The chance of a click by the hidden model: no other model can rank better.
    pub chances: Vec<f32>,
}

impl Source {
    /// A source whose ids are rows of a table with `rows` rows.
    ///
    /// # Errors
    /// When there are no rows.
    pub fn new(seed: u64, rows: usize) -> Result<Source> {
        if rows == 0 {
            return Err(Error::Settings("the table needs at least 1 row, not 0".to_owned()));
        }
        let hidden = Philox::new(seed, "hidden sparse weights");
        let mut ids: Vec<Ids> = Vec::with_capacity(SLOTS);
        for (slot, &values) in VALUES.iter().enumerate() {
            let known = ids.iter().find(|known| known.weights.len() == values);
            let skew = match known {
                Some(known) => Arc::clone(&known.skew),
                None => Arc::new(Skew::power_law(values, EXPONENT)),
            };
            let stream = hidden.stream(slot as u64);
            let weights = (0..values as u64).map(|value| WEIGHT * stream.normal(value)).collect();
            ids.push(Ids { skew, weights });
        }
        let dense = Philox::new(seed, "hidden dense weights");
        let dense_weights = std::array::from_fn(|at| dense.normal(at as u64));
        Ok(Source { seed, rows: rows as u64, ids, dense_weights })
    }

    /// The slots of a sample: those of the model `dnn`.
    pub fn slots() -> Vec<Slot> {
        let ids = (1..=SLOTS).map(|slot| Slot::id(slot.to_string()));
        let dense = Slot::floats("dense_input", DENSE);
        [Slot::id("label")].into_iter().chain(ids).chain([dense]).collect()
    }

    /// The samples with the numbers of a range.
    pub fn samples(&self, numbers: Range<u64>) -> Samples {
        let mut samples = Samples::of(&Source::slots());
        numbers.for_each(|number| self.append(number, &mut samples));
        samples
    }

    /// What is known of the samples with the numbers of a range.
    pub fn truth(&self, numbers: Range<u64>) -> Truth {
        let mut truth = Truth::default();
        for number in numbers {
            let sample = self.sample(number);
            truth.labels.push(u8::from(sample.click));
            truth.chances.push(sample.chance);
        }
        truth
    }

    /// Appends sample `number` to samples of [`Source::slots`].
    fn append(&self, number: u64, out: &mut Samples) {
        let sample = self.sample(number);
        let ids = [u64::from(sample.click)].into_iter().chain(sample.ids);
        for (column, id) in out.columns_mut().iter_mut().zip(ids) {
            if let Values::Ids(values) = column.values_mut() {
                values.push(id);
            }
        }
        if let Some(Values::Floats(values)) = out.columns_mut().last_mut().map(|c| c.values_mut()) {
            values.extend(sample.dense);
        }
        out.end_row();
    }

    fn sample(&self, number: u64) -> Sample {
        let mut draws = Draws::of("samples", self.seed, number);
        let mut logit = INTERCEPT;
        let mut ids = [0; SLOTS];
        for (slot, (of_slot, id)) in self.ids.iter().zip(&mut ids).enumerate() {
            let value = draws.from(&of_slot.skew);
            logit += of_slot.weights[value];
            *id = hash(slot, value) % self.rows;
        }
        let mut dense = [0.0; DENSE];
        for (feature, weight) in dense.iter_mut().zip(&self.dense_weights) {
            let drawn = -DENSE_MEAN * (1.0 - draws.uniform()).ln();
            // Six decimals, so that the text form of a sample is exact.
            let rounded = (drawn.min(DENSE_MAX) * 1e6).round() / 1e6;
            *feature = if draws.happens(DENSE_ABSENT) { 0.0 } else { rounded };
            logit += (*feature - DENSE_MEAN * (1.0 - DENSE_ABSENT)) * weight;
        }
        let chance = chance(logit);
        Sample { ids, dense, chance, click: draws.happens(chance) }
    }
}

struct Sample {
    ids: [u64; SLOTS],
    dense: [f32; DENSE],
    chance: f32,
    click: bool,
}

/// The samples of one trainer of several: its rows of every batch, so that the steps which all of
/// them make together have the batches of a single one.
#[derive(Clone, Debug)]
pub struct Part {
    source: Arc<Source>,
    numbers: Range<u64>,
    /// Samples in a step of one trainer.
    batch: u64,
    rank: u64,
    trainers: u64,
}

impl Part {
    /// All samples of a range.
    pub fn all(source: Arc<Source>, numbers: Range<u64>) -> Part {
        Part { source, numbers, batch: 1, rank: 0, trainers: 1 }
    }

    /// Those of trainer `rank` of `trainers`, which make steps of `batch` samples each.
    pub fn of(self, rank: usize, trainers: usize, batch: usize) -> Part {
        let [rank, trainers, batch] = [rank, trainers, batch].map(|number| number as u64);
        Part { rank, trainers: trainers.max(1), batch: batch.max(1), ..self }
    }

    /// How many they are.
    pub fn len(&self) -> u64 {
        let (steps, rest) = self.steps();
        steps * self.batch + self.of_rest(rest, self.rank + 1) - self.of_rest(rest, self.rank)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Steps that all trainers make with whole batches, and the samples that are left.
    fn steps(&self) -> (u64, u64) {
        let (samples, step) = (self.numbers.end - self.numbers.start, self.batch * self.trainers);
        (samples / step, samples % step)
    }

    /// Where the part of a trainer begins among those that are left.
    fn of_rest(&self, rest: u64, rank: u64) -> u64 {
        rest * rank / self.trainers
    }

    /// The number of the sample at a place.
    fn number(&self, at: u64) -> u64 {
        let ((steps, rest), step) = (self.steps(), at / self.batch);
        let in_step = match step < steps {
            true => self.rank * self.batch + at % self.batch,
            false => self.of_rest(rest, self.rank) + at - steps * self.batch,
        };
        self.numbers.start + step.min(steps) * self.batch * self.trainers + in_step
    }
}

impl Input for Part {
    fn files(&self) -> usize {
        self.len().div_ceil(FILE) as usize
    }

    fn open(&self, file: usize) -> bireme_data::Result<Box<dyn Rows>> {
        let first = file as u64 * FILE;
        Ok(Box::new(PartRows { part: self.clone(), left: first..(first + FILE).min(self.len()) }))
    }
}

struct PartRows {
    part: Part,
    left: Range<u64>,
}

impl Rows for PartRows {
    fn read(&mut self, out: &mut Samples, at_least_rows: usize) -> bireme_data::Result<bool> {
        for at in self.left.by_ref().take(at_least_rows) {
            self.part.source.append(self.part.number(at), out);
        }
        Ok(!self.left.is_empty())
    }
}

/// Spreads (slot, value) over 64 bits: the finaliser of splitmix64.
fn hash(slot: usize, value: usize) -> u64 {
    let mut z =
        ((slot as u64 + 1) << 40).wrapping_add((value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::auc_of;
    use crate::zoo::{Hyper, find};

    fn read(part: &Part) -> Samples {
        let mut samples = Samples::of(&Source::slots());
        for file in 0..part.files() {
            let mut rows = part.open(file).unwrap();
            while rows.read(&mut samples, 1000).unwrap() {}
        }
        samples
    }

    #[test]
    fn trainers_together_have_the_batches_of_one() {
        let source = Arc::new(Source::new(7, 1000).unwrap());
        for (samples, batch, trainers) in
            [(1000, 50, 2), (1001, 50, 2), (1050, 33, 3), (3, 33, 3), (101, 1, 4), (7, 1, 3)]
        {
            let all = Part::all(Arc::clone(&source), 10..10 + samples);
            let parts: Vec<Part> =
                (0..trainers).map(|rank| all.clone().of(rank, trainers, batch)).collect();
            let step = |at: u64| at / batch as u64;
            let numbers = |part: &Part, wanted: u64| -> Vec<u64> {
                let places = (0..part.len()).filter(|at| step(*at) == wanted);
                places.map(|at| part.number(at)).collect()
            };
            let steps = parts.iter().map(|part| step(part.len().saturating_sub(1)) + 1).max();
            let of_steps = (0..steps.unwrap()).flat_map(|step| {
                parts.iter().flat_map(|part| numbers(part, step)).collect::<Vec<_>>()
            });
            assert!(of_steps.eq(10..10 + samples), "{samples}, {batch}, {trainers}");
            assert_eq!(parts.iter().map(Part::len).sum::<u64>(), samples);
        }
    }

    #[test]
    fn files_hold_all_samples_in_order() {
        let source = Arc::new(Source::new(7, 1000).unwrap());
        let count = FILE + 10;
        let part = Part::all(Arc::clone(&source), 5..5 + count);
        assert_eq!((part.files(), part.len()), (2, count));
        let samples = read(&part);
        assert_eq!(samples, source.samples(5..5 + count));
        assert_ne!(samples, Source::new(8, 1000).unwrap().samples(5..5 + count));
        let Values::Ids(labels) = samples.columns()[0].values() else { panic!("ids") };
        let truth = source.truth(5..5 + count);
        assert!(
            labels.iter().eq(truth
                .labels
                .iter()
                .map(|label| u64::from(*label))
                .collect::<Vec<_>>()
                .iter())
        );
    }

    #[test]
    fn clicks_are_rare_and_explained_by_the_hidden_model() {
        let source = Source::new(1, 1_000_001).unwrap();
        let truth = source.truth(0..40_000);
        let rate = truth.labels.iter().map(|x| f64::from(*x)).sum::<f64>() / 40_000.0;
        assert!((0.1..0.4).contains(&rate), "{rate}");
        let auc = auc_of(&truth.labels, &truth.chances).unwrap();
        assert!((0.8..0.9).contains(&auc), "{auc}");
        let samples = source.samples(0..512);
        let mut ids: Vec<u64> = Vec::new();
        for column in &samples.columns()[1..=SLOTS] {
            let Values::Ids(values) = column.values() else { panic!("ids") };
            ids.extend(values);
        }
        assert!(ids.iter().all(|id| *id < 1_000_001));
        // The peers' data has 4,938 distinct ids in a batch of 512.
        ids.sort_unstable();
        ids.dedup();
        assert!((4_500..5_400).contains(&ids.len()), "{}", ids.len());
    }

    #[test]
    fn samples_are_those_of_the_model() {
        let model = (find("dnn").unwrap().build)(&mut Hyper::default()).unwrap();
        assert_eq!(Source::slots(), model.slots);
        let error = Source::new(1, 0).unwrap_err().to_string();
        assert!(error.contains("at least 1 row"), "{error}");
    }
}
