//! Paddle's accessors as records of a table: the engine's arithmetic, with first values drawn by key.

use std::ops::Deref;

use bireme_engine::accessor::{
    Ctr as Shared, CtrConfig, DELTA_SCORE, Mark, SLOT, SparseRule, UNSEEN_DAYS, count, set_count,
};
use bireme_engine::random::RowInit;

use super::super::columns::{Column, ColumnKind, SaveMode};
use super::super::config::TableConfig;
use super::{Record, Source};
use crate::{Error, Result};

/// The slot of a row that no slot has pushed yet.
const NO_SLOT: f32 = -1.0;

/// One of Paddle's accessors, and where its first values come from.
#[derive(Clone, Debug)]
pub(in super::super) struct Ctr {
    shared: Shared,
    source: Source,
}

impl Deref for Ctr {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Ctr {
    pub(super) fn new(table: &TableConfig, config: CtrConfig, source: Source) -> Result<Ctr> {
        let shared = Shared::new(config, &table.entry, table.width);
        let wrong = |problem| Error::Config(format!("table `{}`: {problem}", table.name));
        Ok(Ctr { shared: shared.map_err(wrong)?, source })
    }

    /// Initial weights for the columns of a pull from `column` on.
    fn draw(&self, rule: &SparseRule, key: u64, column: usize, out: &mut [f32]) {
        let range = rule.initial_range;
        let first = key.wrapping_mul(self.width as u64).wrapping_add(column as u64);
        RowInit::Uniform { min: -range, max: range }.fill(&self.source.draw, first, out);
    }

    fn first_embedx(&self, key: u64, embedx: &mut [f32]) {
        self.draw(&self.config.embedx, key, self.config.class.head(), embedx);
    }

    /// Takes a gradient of the pulled columns.
    pub(in super::super) fn push(
        &self,
        key: u64,
        record: &mut [f32],
        grads: &[f32],
        counts: [f32; 2],
    ) {
        self.shared.push(record, grads, counts, |embedx| self.first_embedx(key, embedx));
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
        self.shared.record_width()
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
        self.shared.pull(record, out);
    }

    fn lent_width(&self) -> usize {
        self.shared.lent_width()
    }

    fn lend(&self, key: u64, mark: Mark, record: &[f32], lent: &mut [f32]) {
        let (head, to) = lent.split_at_mut(Shared::LENT_HEAD);
        head.fill(0.0);
        head[0] = mark.number();
        to.copy_from_slice(record);
        if record[self.has_embedx()] == 0.0 {
            self.first_embedx(key, &mut to[self.embedx.clone()]);
        }
    }

    fn mark_of(&self, lent: &[f32]) -> Mark {
        Mark::of(lent[0])
    }

    fn take_back(&self, lent: &[f32], record: &mut [f32]) {
        record.copy_from_slice(&lent[Shared::LENT_HEAD..]);
        if record[self.has_embedx()] == 0.0 {
            record[self.embedx.clone()].fill(0.0);
        }
    }

    fn set(&self, record: &mut [f32], values: &[f32]) {
        let (head, long) = values.split_at(self.config.class.head());
        if let [show, click, _] = head {
            set_count(&mut record[self.show.clone()], f64::from(*show));
            set_count(&mut record[self.click.clone()], f64::from(*click));
        }
        if let Some(least) = self.least_shows
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

#[cfg(test)]
mod tests;
