//! Criteo-like click data: skewed ids, dense counts, and labels from a hidden logistic model.
//!
//! Sample `i` depends only on the seed and on `i`. So the data is the same however many threads
//! make it, and a held-out set is simply a later range.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Result, ensure};
use bireme_engine::random::Philox;

use super::in_parallel;

/// Sparse slots of a sample.
pub const SLOTS: usize = 26;
/// Dense features of a sample.
pub const DENSE: usize = 13;

/// How many values each slot has: those of Criteo's data, the big ones capped.
const CARDINALITIES: [usize; SLOTS] = [
    1_460, 583, 200_000, 200_000, 305, 24, 12_517, 633, 3, 93_145, 5_683, 200_000, 3_194, 27,
    14_992, 200_000, 10, 5_652, 2_173, 4, 200_000, 18, 15, 200_000, 105, 142_572,
];
/// The exponent of the power law that ids follow.
const SKEW: f64 = 1.05;
/// Spread of the hidden weight of one (slot, value).
const SPARSE_WEIGHT: f32 = 0.33;
/// The hidden model's intercept; gives about one click in five.
const INTERCEPT: f32 = -1.6;
/// Mean of a dense feature before some are dropped.
const DENSE_MEAN: f32 = 0.15;
/// Share of dense features that are 0.
const DENSE_ABSENT: f32 = 0.3;
const DENSE_MAX: f32 = 5.0;

/// The hidden model, and the distribution of what it looks at.
#[derive(Debug)]
pub struct Source {
    seed: u64,
    rows: u64,
    slots: Vec<Slot>,
    dense_weights: [f32; DENSE],
}

#[derive(Debug)]
struct Slot {
    /// Probability of a value or one before it; shared by slots of the same size.
    cumulative: Arc<Vec<f32>>,
    /// Hidden weight of each value.
    weights: Vec<f32>,
}

/// Samples in memory, row after row.
#[derive(Debug, Default, PartialEq)]
pub struct Samples {
    /// 1 for a click.
    pub labels: Vec<u8>,
    /// [`DENSE`] numbers a sample.
    pub dense: Vec<f32>,
    /// [`SLOTS`] ids a sample, each below the number of table rows.
    pub ids: Vec<u32>,
    /// What the hidden model says: no other model can rank better.
    pub probabilities: Vec<f32>,
}

impl Source {
    /// A source whose ids are rows of a table with `rows` rows.
    ///
    /// # Errors
    /// When there are no rows, or more than ids of 32 bits can name.
    pub fn new(seed: u64, rows: usize, threads: usize) -> Result<Source> {
        ensure!(
            (1..=u32::MAX as usize).contains(&rows),
            "the table needs between 1 and {} rows, not {rows}",
            u32::MAX
        );
        let hidden = Philox::new(seed, "hidden sparse weights");
        let mut cumulative: Vec<(usize, Arc<Vec<f32>>)> = Vec::new();
        let mut slots: Vec<Slot> = CARDINALITIES
            .iter()
            .map(|&values| {
                let known = cumulative.iter().find(|(size, _)| *size == values);
                let shared = known.map_or_else(|| Arc::new(power_law(values)), |(_, c)| c.clone());
                cumulative.push((values, shared.clone()));
                Slot { cumulative: shared, weights: vec![0.0; values] }
            })
            .collect();
        let jobs: Vec<(usize, &mut Slot)> = slots.iter_mut().enumerate().collect();
        in_parallel(threads, jobs, |(index, slot)| {
            let stream = hidden.stream(index as u64);
            for (rank, weight) in (0..).zip(&mut slot.weights) {
                *weight = SPARSE_WEIGHT * stream.normal(rank);
            }
        });
        let dense = Philox::new(seed, "hidden dense weights");
        let dense_weights = std::array::from_fn(|i| dense.normal(i as u64));
        Ok(Source { seed, rows: rows as u64, slots, dense_weights })
    }

    /// The samples with the numbers of a range.
    pub fn samples(&self, range: Range<u64>, threads: usize) -> Samples {
        self.samples_unless(range, threads, || false).expect("nobody stops it")
    }

    /// The samples with the numbers of a range, unless `stop` becomes true meanwhile.
    pub fn samples_unless(
        &self,
        range: Range<u64>,
        threads: usize,
        stop: impl Fn() -> bool + Sync,
    ) -> Option<Samples> {
        let count = usize::try_from(range.end - range.start).expect("samples fit into memory");
        let samples = self.generate(count, |row| range.start + row as u64, threads, &stop);
        (!stop()).then_some(samples)
    }

    /// The samples with these numbers.
    pub fn samples_numbered(&self, numbers: &[u64], threads: usize) -> Samples {
        self.generate(numbers.len(), |row| numbers[row], threads, &|| false)
    }

    /// So many samples, the number of each of which `number` tells from its row; unfinished where
    /// `stop` says so.
    fn generate(
        &self,
        count: usize,
        number: impl Fn(usize) -> u64 + Sync,
        threads: usize,
        stop: &(impl Fn() -> bool + Sync),
    ) -> Samples {
        const CHUNK: usize = 4096;
        let mut all = Samples {
            labels: vec![0; count],
            dense: vec![0.0; count * DENSE],
            ids: vec![0; count * SLOTS],
            probabilities: vec![0.0; count],
        };
        let jobs: Vec<_> = (0usize..)
            .zip(all.labels.chunks_mut(CHUNK))
            .zip(all.dense.chunks_mut(CHUNK * DENSE))
            .zip(all.ids.chunks_mut(CHUNK * SLOTS))
            .zip(all.probabilities.chunks_mut(CHUNK))
            .collect();
        in_parallel(threads, jobs, |((((chunk, labels), dense), ids), probabilities)| {
            if stop() {
                return;
            }
            let first = chunk * CHUNK;
            let rows = labels
                .iter_mut()
                .zip(dense.chunks_exact_mut(DENSE))
                .zip(ids.chunks_exact_mut(SLOTS))
                .zip(probabilities);
            for (row, (((label, dense), ids), probability)) in (first..).zip(rows) {
                *probability = self.sample(number(row), dense, ids, label);
            }
        });
        all
    }

    /// Makes sample `number` and returns the probability of a click.
    fn sample(&self, number: u64, dense: &mut [f32], ids: &mut [u32], label: &mut u8) -> f32 {
        let mut uniform = Uniform::new(self.seed, number);
        let mut logit = INTERCEPT;
        for (index, (slot, id)) in self.slots.iter().zip(ids).enumerate() {
            let at = uniform.next();
            let rank = slot.cumulative.partition_point(|p| *p < at).min(slot.weights.len() - 1);
            logit += slot.weights[rank];
            *id = (hash(index, rank) % self.rows) as u32;
        }
        for (value, weight) in dense.iter_mut().zip(&self.dense_weights) {
            let drawn = -DENSE_MEAN * (1.0 - uniform.next()).ln();
            // Six decimals, so that the text form of a sample is exact.
            let rounded = (drawn.min(DENSE_MAX) * 1e6).round() / 1e6;
            *value = if uniform.next() < DENSE_ABSENT { 0.0 } else { rounded };
            logit += (*value - DENSE_MEAN * (1.0 - DENSE_ABSENT)) * weight;
        }
        let probability = 1.0 / (1.0 + (-logit).exp());
        *label = u8::from(uniform.next() < probability);
        probability
    }
}

impl Samples {
    /// The number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Sample `row` as a line of PaddleRec's slot text, without the line break.
    pub fn slot_line(&self, row: usize) -> String {
        let mut line = format!("click:{}", self.labels[row]);
        for value in &self.dense[row * DENSE..(row + 1) * DENSE] {
            line.push_str(&format!(" dense_feature:{value:?}"));
        }
        for (slot, id) in (1..).zip(&self.ids[row * SLOTS..(row + 1) * SLOTS]) {
            line.push_str(&format!(" {slot}:{id}"));
        }
        line
    }
}

/// Uniform numbers of one sample, in order.
struct Uniform {
    stream: Philox,
    words: [u32; 4],
    drawn: u64,
}

impl Uniform {
    fn new(seed: u64, sample: u64) -> Uniform {
        let stream = Philox::new(seed, "samples").stream(sample);
        Uniform { stream, words: [0; 4], drawn: 0 }
    }

    fn next(&mut self) -> f32 {
        let place = (self.drawn % 4) as usize;
        if place == 0 {
            self.words = self.stream.words(self.drawn / 4);
        }
        self.drawn += 1;
        (self.words[place] >> 8) as f32 / (1u32 << 24) as f32
    }
}

/// Cumulative probabilities of a power law over `values` ranks.
fn power_law(values: usize) -> Vec<f32> {
    let terms: Vec<f64> = (1..=values).map(|rank| (rank as f64).powf(-SKEW)).collect();
    let total: f64 = terms.iter().sum();
    let mut sum = 0.0;
    terms
        .iter()
        .map(|term| {
            sum += term / total;
            sum as f32
        })
        .collect()
}

/// Spreads (slot, rank) over 64 bits: the finaliser of splitmix64.
fn hash(slot: usize, rank: usize) -> u64 {
    let mut z =
        ((slot as u64 + 1) << 40).wrapping_add((rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::metrics;

    #[test]
    fn threads_do_not_change_the_data() {
        let one = Source::new(7, 1000, 1).unwrap().samples(10..9_010, 1);
        let three = Source::new(7, 1000, 3).unwrap().samples(10..9_010, 3);
        assert_eq!(one, three);
        let later = Source::new(7, 1000, 2).unwrap().samples(5_010..9_010, 2);
        assert_eq!(one.labels[5_000..], later.labels);
        let numbers: Vec<u64> = (5_010..9_010).collect();
        assert_eq!(Source::new(7, 1000, 2).unwrap().samples_numbered(&numbers, 2), later);
        assert_ne!(one.labels, Source::new(8, 1000, 2).unwrap().samples(10..9_010, 2).labels);
    }

    #[test]
    fn samples_are_whole_or_not_there() {
        let source = Source::new(7, 1000, 1).unwrap();
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0;
        assert_eq!(source.samples_unless(0..9_000, 1, stop), None);
        assert_eq!(source.samples_unless(0..9, 1, || false), Some(source.samples(0..9, 1)));
    }

    #[test]
    fn clicks_are_rare_and_explained_by_the_hidden_model() {
        let samples = Source::new(1, 1_000_001, 2).unwrap().samples(0..40_000, 2);
        let rate = samples.labels.iter().map(|x| f64::from(*x)).sum::<f64>() / 40_000.0;
        assert!((0.1..0.4).contains(&rate), "{rate}");
        let auc = metrics::auc(&samples.labels, &samples.probabilities).unwrap();
        assert!((0.8..0.9).contains(&auc), "{auc}");
        assert!(samples.ids.iter().all(|id| *id < 1_000_001));
        // The peers' data has 4,938 distinct ids in a batch of 512.
        let mut batch = samples.ids[..512 * SLOTS].to_vec();
        batch.sort_unstable();
        batch.dedup();
        assert!((4_500..5_400).contains(&batch.len()), "{}", batch.len());
    }

    #[test]
    fn a_sample_prints_as_slot_text() {
        let samples = Samples {
            labels: vec![1],
            dense: (0..13).map(|i| i as f32 * 0.25).collect(),
            ids: (1..27).collect(),
            probabilities: vec![0.5],
        };
        let line = samples.slot_line(0);
        assert!(line.starts_with("click:1 dense_feature:0.0 dense_feature:0.25 "), "{line}");
        assert!(line.ends_with(" 25:25 26:26"), "{line}");
    }

    #[test]
    fn an_empty_table_is_refused() {
        let error = Source::new(1, 0, 1).unwrap_err().to_string();
        assert!(error.contains("between 1 and"), "{error}");
    }
}
