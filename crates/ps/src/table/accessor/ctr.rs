//! Paddle's accessors: a record is `[slot, unseen_days, delta_score, show, click, embed_w,
//! embed_state…, embedx_w…, embedx_state…, has_embedx]`; `embedx` is the long part.
//!
//! The double accessor keeps shows and clicks as two numbers each, whose sum is the count.

use std::ops::Range;

use bireme_engine::random::RowInit;

use super::super::columns::{Column, ColumnKind, SaveMode};
use super::super::config::TableConfig;
use super::super::entry::Entry;
use super::super::rule::SparseRule;
use super::{CtrClass, CtrConfig, Record, Source};
use crate::{Error, Result};

pub(super) const SLOT: usize = 0;
pub(super) const UNSEEN_DAYS: usize = 1;
pub(super) const DELTA_SCORE: usize = 2;
/// The slot of a row that no slot has pushed yet.
const NO_SLOT: f32 = -1.0;

/// One of Paddle's accessors, with the places of its columns.
#[derive(Clone, Debug)]
pub(in super::super) struct Ctr {
    pub(super) config: CtrConfig,
    entry: Entry,
    source: Source,
    /// Columns of a pull.
    width: usize,
    pub(super) show: Range<usize>,
    pub(super) click: Range<usize>,
    pub(super) embed: usize,
    pub(super) embed_state: Range<usize>,
    pub(super) embedx: Range<usize>,
    pub(super) embedx_state: Range<usize>,
}

impl Ctr {
    pub(super) fn new(table: &TableConfig, config: CtrConfig, source: Source) -> Result<Ctr> {
        let head = config.class.head();
        let Some(dim) = table.width.checked_sub(head) else {
            return Err(Error::Config(format!(
                "table `{}`: {:?} needs at least {head} columns, not {}",
                table.name, config.class, table.width
            )));
        };
        let count = if config.class == CtrClass::CtrDoubleAccessor { 2 } else { 1 };
        let show = 3..3 + count;
        let click = show.end..show.end + count;
        let embed = click.end;
        let embed_state = embed + 1..embed + 1 + config.embed.state_width(1);
        let embedx = embed_state.end..embed_state.end + dim;
        let embedx_state = embedx.end..embedx.end + config.embedx.state_width(dim);
        let (entry, width) = (table.entry.clone(), table.width);
        Ok(Ctr {
            config,
            entry,
            source,
            width,
            show,
            click,
            embed,
            embed_state,
            embedx,
            embedx_state,
        })
    }

    pub(super) fn has_embedx(&self) -> usize {
        self.embedx_state.end
    }

    fn score(&self, show: f64, click: f64) -> f64 {
        (show - click) * f64::from(self.config.nonclk_coeff)
            + click * f64::from(self.config.click_coeff)
    }

    pub(super) fn shows_and_clicks(&self, record: &[f32]) -> [f64; 2] {
        [&self.show, &self.click].map(|at| count(&record[at.clone()]))
    }

    pub(super) fn score_of(&self, record: &[f32]) -> f64 {
        let [show, click] = self.shows_and_clicks(record);
        self.score(show, click)
    }

    /// Initial weights for the columns of a pull from `column` on.
    fn draw(&self, rule: &SparseRule, key: u64, column: usize, out: &mut [f32]) {
        let range = rule.initial_range;
        let first = key.wrapping_mul(self.width as u64).wrapping_add(column as u64);
        RowInit::Uniform { min: -range, max: range }.fill(&self.source.draw, first, out);
    }

    fn make_embedx(&self, key: u64, record: &mut [f32]) {
        let embedx = &mut record[self.embedx.clone()];
        self.draw(&self.config.embedx, key, self.config.class.head(), embedx);
        self.config.embedx.start(&mut record[self.embedx_state.clone()]);
        record[self.has_embedx()] = 1.0;
    }

    fn admitted(&self, record: &[f32]) -> bool {
        match self.entry {
            Entry::CountFilter(least) => count(&record[self.show.clone()]) >= least as f64,
            _ => true,
        }
    }

    /// Takes a gradient of the pulled columns; those of shows and clicks are not weights, so their
    /// gradients mean nothing.
    pub(in super::super) fn push(
        &self,
        key: u64,
        record: &mut [f32],
        grads: &[f32],
        [shows, clicks]: [f32; 2],
    ) {
        add_count(&mut record[self.show.clone()], shows);
        add_count(&mut record[self.click.clone()], clicks);
        record[DELTA_SCORE] += self.score(f64::from(shows), f64::from(clicks)) as f32;
        record[UNSEEN_DAYS] = 0.0;
        if !self.admitted(record) {
            return;
        }
        let scale = if self.config.show_scale { shows } else { 1.0 };
        let (head, long) = grads.split_at(self.config.class.head());
        let rule = &self.config.embed;
        let (weight, rest) = record[self.embed..self.embed_state.end].split_at_mut(1);
        rule.update(weight, rest, &head[head.len() - 1..], scale);
        if record[self.has_embedx()] != 0.0 {
            let both = &mut record[self.embedx.start..self.embedx_state.end];
            let (weights, state) = both.split_at_mut(self.embedx.len());
            self.config.embedx.update(weights, state, long, scale);
        } else if self.score_of(record) >= f64::from(self.config.embedx_threshold) {
            self.make_embedx(key, record);
        }
    }

    /// A long part of zeros, where values are about to come from elsewhere.
    fn need_embedx(&self, record: &mut [f32]) {
        if record[self.has_embedx()] == 0.0 {
            self.config.embedx.start(&mut record[self.embedx_state.clone()]);
            record[self.has_embedx()] = 1.0;
        }
    }
}

impl Record for Ctr {
    fn record_width(&self) -> usize {
        self.embedx_state.end + 1
    }

    fn columns(&self) -> Vec<Column> {
        let counter = |name, width| Column::new(name, width, ColumnKind::Counter);
        let state = |name, width| Column::new(name, width, ColumnKind::State);
        let all = [
            counter("slot", 1),
            counter("unseen_days", 1),
            counter("delta_score", 1),
            Column::new("show", self.show.len(), ColumnKind::Show),
            Column::new("click", self.click.len(), ColumnKind::Click),
            Column::new("embed_w", 1, ColumnKind::Weight),
            state("embed_state", self.embed_state.len()),
            Column::new("embedx_w", self.embedx.len(), ColumnKind::Weight),
            state("embedx_state", self.embedx_state.len()),
            counter("has_embedx", 1),
        ];
        all.into_iter().filter(|column| column.width > 0).collect()
    }

    fn blank(&self, key: u64, record: &mut [f32]) {
        record.fill(0.0);
        record[SLOT] = NO_SLOT;
        if !self.config.zero_init {
            let at = self.embed..self.embed + 1;
            self.draw(&self.config.embed, key, self.config.class.head() - 1, &mut record[at]);
        }
        self.config.embed.start(&mut record[self.embed_state.clone()]);
    }

    fn pull(&self, record: &[f32], out: &mut [f32]) {
        if !self.admitted(record) {
            out.fill(0.0);
            return;
        }
        let (head, long) = out.split_at_mut(self.config.class.head());
        if let [show, click, _] = head {
            [*show, *click] = self.shows_and_clicks(record).map(|count| count as f32);
        }
        head[head.len() - 1] = record[self.embed];
        // A long part that was not made yet is zeros in the record.
        long.copy_from_slice(&record[self.embedx.clone()]);
    }

    fn set(&self, record: &mut [f32], values: &[f32]) {
        let (head, long) = values.split_at(self.config.class.head());
        if let [show, click, _] = head {
            set_count(&mut record[self.show.clone()], f64::from(*show));
            set_count(&mut record[self.click.clone()], f64::from(*click));
        }
        if let Entry::CountFilter(least) = self.entry
            && !self.admitted(record)
        {
            set_count(&mut record[self.show.clone()], least as f64);
        }
        record[self.embed] = head[head.len() - 1];
        self.need_embedx(record);
        record[self.embedx.clone()].copy_from_slice(long);
    }

    fn add(&self, record: &mut [f32], deltas: &[f32]) {
        let (head, long) = deltas.split_at(self.config.class.head());
        record[self.embed] += head[head.len() - 1];
        self.need_embedx(record);
        for (weight, delta) in record[self.embedx.clone()].iter_mut().zip(long) {
            *weight += delta;
        }
    }

    fn saves(&self, mode: SaveMode, record: &[f32], _changed: bool) -> bool {
        let least_delta = match mode {
            SaveMode::Full | SaveMode::FullAging => return true,
            SaveMode::Delta => self.config.delta_threshold,
            SaveMode::Base => 0.0,
        };
        self.score_of(record) >= f64::from(self.config.base_threshold)
            && record[DELTA_SCORE] >= least_delta
            && record[UNSEEN_DAYS] <= self.config.delta_keep_days
    }

    fn marks_records(&self, mode: SaveMode) -> bool {
        mode != SaveMode::Full
    }

    fn mark_saved(&self, mode: SaveMode, record: &mut [f32]) {
        match mode {
            SaveMode::Full => {}
            SaveMode::Delta | SaveMode::Base => record[DELTA_SCORE] = 0.0,
            SaveMode::FullAging => record[UNSEEN_DAYS] += 1.0,
        }
    }

    fn undo_save(&self, mode: SaveMode, record: &mut [f32]) {
        match mode {
            SaveMode::Full => {}
            SaveMode::Delta | SaveMode::Base => {
                record[DELTA_SCORE] = record[DELTA_SCORE].max(self.config.delta_threshold);
            }
            // A push since then has set it to 0 already.
            SaveMode::FullAging => record[UNSEEN_DAYS] = (record[UNSEEN_DAYS] - 1.0).max(0.0),
        }
    }

    fn shrink(&self, record: &mut [f32]) -> bool {
        let rate = f64::from(self.config.show_click_decay_rate);
        for at in [&self.show, &self.click] {
            let count = &mut record[at.clone()];
            set_count(count, self::count(count) * rate);
        }
        self.score_of(record) >= f64::from(self.config.delete_threshold)
            && record[UNSEEN_DAYS] <= self.config.delete_after_unseen_days
    }

    fn counts(&self, record: &[f32]) -> Option<[f64; 2]> {
        Some(self.shows_and_clicks(record))
    }

    fn write_text(&self, record: &[f32], numbers: &mut Vec<f32>) {
        self.text_of(record, numbers);
    }

    fn read_text(&self, numbers: &[f32], record: &mut [f32]) -> std::result::Result<(), String> {
        self.parse_text(numbers, record)
    }
}

/// A count of one number or of two that are its sum.
pub(super) fn count(numbers: &[f32]) -> f64 {
    numbers.iter().map(|number| f64::from(*number)).sum()
}

/// The other way round: the second number has what the first cannot hold.
pub(super) fn set_count(numbers: &mut [f32], mut count: f64) {
    for number in numbers {
        *number = count as f32;
        count -= f64::from(*number);
    }
}

fn add_count(numbers: &mut [f32], more: f32) {
    set_count(numbers, count(numbers) + f64::from(more));
}

#[cfg(test)]
mod tests;
