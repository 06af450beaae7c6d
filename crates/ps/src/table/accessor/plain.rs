//! The plain accessor: `[counters of the entry | weights | accumulators…]`.

use std::ops::Range;

use bireme_engine::accessor::{Entry, Mark};

use super::super::columns::{Column, ColumnKind};
use super::super::config::TableConfig;
use super::super::rule::{OptimizerRule, StateColumn};
use super::{Record, Source};

/// Weights and the accumulators of an engine optimizer.
#[derive(Clone, Debug)]
pub(in super::super) struct Plain {
    width: usize,
    entry: Entry,
    rule: OptimizerRule,
    states: Vec<StateColumn>,
    source: Source,
}

impl Plain {
    pub(super) fn new(config: &TableConfig, rule: OptimizerRule, source: Source) -> Plain {
        let states = rule.states();
        Plain { width: config.width, entry: config.entry.clone(), rule, states, source }
    }

    /// The optimizer.
    pub(in super::super) fn rule(&self) -> &OptimizerRule {
        &self.rule
    }

    /// Who is admitted.
    pub(in super::super) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Where the weights lie in a record; the accumulators follow.
    #[inline(always)]
    pub(in super::super) fn weights(&self) -> Range<usize> {
        let first = self.entry.counters();
        first..first + self.width
    }

    /// Whether lent records begin with a mark: where every key has a row, none is needed.
    fn lent_head(&self) -> usize {
        usize::from(!matches!(self.entry, Entry::Every))
    }

    fn initial(&self, key: u64, weights: &mut [f32]) {
        let first = key.wrapping_mul(self.width as u64);
        self.source.init.fill(&self.source.draw, first, weights);
    }
}

impl Record for Plain {
    fn record_width(&self) -> usize {
        self.weights().end + self.states.len() * self.width
    }

    fn pulled_span(&self) -> usize {
        self.weights().end
    }

    fn columns(&self) -> Vec<Column> {
        let counters = match self.entry {
            Entry::CountFilter(_) => vec![Column::new("count", 1, ColumnKind::Counter)],
            Entry::ShowClick { .. } => vec![
                Column::new("show", 1, ColumnKind::Show),
                Column::new("click", 1, ColumnKind::Click),
            ],
            Entry::Every | Entry::Probability(_) => vec![],
        };
        let states = self.states.iter();
        let states = states.map(|state| Column::new(state.name, self.width, ColumnKind::State));
        let weight = Column::new("weight", self.width, ColumnKind::Weight);
        counters.into_iter().chain([weight]).chain(states).collect()
    }

    fn blank(&self, key: u64, record: &mut [f32]) {
        let weights = self.weights();
        record[..weights.start].fill(0.0);
        self.initial(key, &mut record[weights.clone()]);
        let states = record[weights.end..].chunks_exact_mut(self.width);
        for (values, state) in states.zip(&self.states) {
            values.fill(state.initial);
        }
    }

    #[inline(always)]
    fn pull(&self, record: &[f32], out: &mut [f32]) {
        let weights = self.weights();
        if self.entry.admits(&record[..weights.start]) {
            out.copy_from_slice(&record[weights]);
        } else {
            out.fill(0.0);
        }
    }

    fn pull_missing(&self, key: u64, out: &mut [f32]) {
        if matches!(self.entry, Entry::Every) {
            self.initial(key, out);
        } else {
            out.fill(0.0);
        }
    }

    fn lent_width(&self) -> usize {
        self.lent_head() + self.record_width()
    }

    fn lend(&self, _key: u64, mark: Mark, record: &[f32], lent: &mut [f32]) {
        let (head, to) = lent.split_at_mut(self.lent_head());
        head.fill(mark.number());
        to.copy_from_slice(record);
    }

    fn mark_of(&self, lent: &[f32]) -> Mark {
        if self.lent_head() == 0 { Mark::Made } else { Mark::of(lent[0]) }
    }

    fn take_back(&self, lent: &[f32], record: &mut [f32]) {
        record.copy_from_slice(&lent[self.lent_head()..]);
    }

    fn set(&self, record: &mut [f32], values: &[f32]) {
        let (counters, rest) = record.split_at_mut(self.weights().start);
        self.entry.admit(counters);
        rest[..self.width].copy_from_slice(values);
    }

    fn add(&self, record: &mut [f32], deltas: &[f32]) {
        for (weight, delta) in record[self.weights()].iter_mut().zip(deltas) {
            *weight += delta;
        }
    }

    fn counts(&self, record: &[f32]) -> Option<[f64; 2]> {
        match self.entry {
            Entry::CountFilter(_) => Some([f64::from(record[0]), 0.0]),
            Entry::ShowClick { .. } => Some([f64::from(record[0]), f64::from(record[1])]),
            Entry::Every | Entry::Probability(_) => None,
        }
    }
}
