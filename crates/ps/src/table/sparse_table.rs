//! The table: shards of rows, each under a lock of its own.
//!
//! A batch is sorted by shard; then each shard is locked once, and its rows are fetched many at a
//! time. Pushes of one batch to different shards are not one transaction: a pull may see some.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_engine::accessor::Entry;
use bireme_engine::optimizer::Loops;
use bireme_engine::random::Philox;
use bireme_engine::simd::vectorized;

use super::accessor::{Accessor, Plain, Record};
use super::arena::Arena;
use super::batch::{Item, SHARDS, by_shard};
use super::columns::{Column, SaveMode};
use super::config::{PushStep, TableConfig};
use super::index::LINE;
use super::rule::{Powers, RowRule};
use super::save::ShardView;
use super::shard::{Full, KEY, Maker, Missing, Shard};
use super::store::RowStore;
use crate::{Error, Result};

mod lend;
mod saves;

/// What a push without counts says of each key: one show, no click.
const ONE_SHOW: [f32; 2] = [1.0, 0.0];

/// Rows by key.
pub struct SparseTable {
    config: TableConfig,
    accessor: Accessor,
    /// Decides who is admitted by chance.
    chance: Philox,
    powers: Powers,
    shards: Box<[Mutex<Shard>]>,
    /// Held by whoever moves or removes rows, and while a save reads a shard.
    row_moves: Mutex<()>,
    /// Where the next batch starts, so that batches do not queue up behind one another.
    turn: AtomicUsize,
}

/// What a shrink did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Rows that went.
    pub removed: usize,
    /// Rows that stayed.
    pub kept: usize,
}

/// The size of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stat {
    /// Rows.
    pub rows: usize,
    /// Bytes of memory.
    pub bytes: usize,
    /// Shows and clicks of all rows, where the table counts them.
    pub counts: Option<[f64; 2]>,
}

impl SparseTable {
    /// An empty table.
    ///
    /// # Errors
    /// When the settings do not fit together.
    pub fn new(config: TableConfig) -> Result<SparseTable> {
        config.check()?;
        let accessor = Accessor::new(&config)?;
        // Keys are read as two floats of a row whose start is aligned to 8 bytes.
        let width = accessor.record_width();
        let stride = (KEY + width).next_multiple_of(2);
        let prefault = Arc::default();
        let [index, records] = [LINE, stride].map(|stride| Arc::new(Arena::new(stride, &prefault)));
        let shards = (0..SHARDS).map(|shard| {
            let phase = shard as f64 / SHARDS as f64;
            Mutex::new(Shard::new(&index, &records, width, phase))
        });
        let shards = shards.collect();
        let chance = Philox::new(config.seed, &format!("{}@ENTRY", config.name));
        let (powers, row_moves, turn) = (Powers::default(), Mutex::default(), AtomicUsize::new(0));
        Ok(SparseTable { config, accessor, chance, powers, shards, row_moves, turn })
    }

    /// Its settings.
    pub fn config(&self) -> &TableConfig {
        &self.config
    }

    /// Floats in a record: counters, values and state.
    pub fn record_width(&self) -> usize {
        self.accessor.record_width()
    }

    /// What a record is made of.
    pub fn columns(&self) -> Vec<Column> {
        self.accessor.columns()
    }

    /// Adds `deltas` to the weights of `keys` (geo); makes missing rows.
    ///
    /// # Errors
    /// When the sizes do not fit, or a shard is full.
    pub fn add(&self, keys: &[u64], deltas: &[f32]) -> Result<()> {
        let width = self.width();
        self.check_len(keys, deltas.len(), width, "deltas")?;
        self.visit::<true>(keys, &Missing::Make(self), |position, _, record| {
            if let Some(record) = record {
                self.accessor.add(record, &deltas[position * width..][..width]);
            }
        })
    }

    /// Shows one shard under its lock.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn with_shard<R>(&self, number: usize, look: impl FnOnce(ShardView<'_>) -> R) -> R {
        let mut shard = self.lock(number);
        look(ShardView { shard: &mut shard, accessor: &self.accessor, number })
    }

    /// Shows every shard in turn, each under its lock.
    pub fn for_each_shard(&self, mut look: impl FnMut(ShardView<'_>)) {
        (0..SHARDS).for_each(|shard| self.with_shard(shard, &mut look));
    }

    /// A filter that says whether a save in this mode takes a row.
    pub fn save_filter(&self, mode: SaveMode) -> impl Fn(&super::Row<'_>) -> bool {
        move |row| self.accessor.saves(mode, row.record, row.changed)
    }

    /// The `n` keys that were shown most, with their shows, most first; none where the table does
    /// not count them.
    pub fn top_by_show(&self, n: usize) -> Vec<(u64, f64)> {
        let mut top: Vec<(u64, f64)> = Vec::new();
        for shard in 0..SHARDS {
            let shard = self.lock(shard);
            let rows = shard.rows();
            top.extend(rows.filter_map(|(key, record, _)| {
                self.accessor.counts(record).map(|[shows, _]| (key, shows))
            }));
            top.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            top.truncate(n);
        }
        top
    }

    /// Its size, and the sums of its counters.
    pub fn stat(&self) -> Stat {
        let mut stat = Stat::default();
        for shard in 0..SHARDS {
            let shard = self.lock(shard);
            stat.rows += shard.len();
            stat.bytes += shard.bytes();
            let counts = shard.rows().filter_map(|(_, record, _)| self.accessor.counts(record));
            if let Some([shows, clicks]) = counts.reduce(|a, b| [a[0] + b[0], a[1] + b[1]]) {
                let sum = stat.counts.get_or_insert([0.0; 2]);
                *sum = [sum[0] + shows, sum[1] + clicks];
            }
        }
        stat
    }

    /// Pulls what `accessor`, this table's own, gives of each row.
    fn pull_by(
        &self,
        accessor: &impl Record,
        keys: &[u64],
        out: &mut [f32],
        missing: &Missing<'_>,
    ) -> Result<()> {
        let width = self.width();
        self.visit::<false>(keys, missing, |position, key, record| {
            let out = &mut out[position * width..][..width];
            match record {
                Some(record) => accessor.pull(record, out),
                None => accessor.pull_missing(key, out),
            }
        })
    }

    fn row_moves(&self) -> MutexGuard<'_, ()> {
        self.row_moves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        // A panic while a shard was locked leaves it whole: rows are written one at a time.
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_len(&self, keys: &[u64], given: usize, width: usize, what: &str) -> Result<()> {
        if keys.len().checked_mul(width) == Some(given) {
            return Ok(());
        }
        Err(Error::Request(format!(
            "table `{}`: {} keys need {width} {what} each, but {given} came",
            self.config.name,
            keys.len()
        )))
    }

    /// Calls `work` with the position of each key, the key, and its record.
    #[inline(always)]
    fn visit<const CHANGES: bool>(
        &self,
        keys: &[u64],
        missing: &Missing<'_>,
        mut work: impl FnMut(usize, u64, Option<&mut [f32]>),
    ) -> Result<()> {
        let first = self.turn.fetch_add(SHARDS / 3, Ordering::Relaxed);
        let span = if CHANGES { self.record_width() } else { self.accessor.pulled_span() };
        let done = vectorized(
            #[inline(always)]
            || {
                by_shard(
                    keys,
                    first,
                    #[inline(always)]
                    |window, shard, items: &[Item]| {
                        self.lock(shard).each::<CHANGES>(
                            items,
                            missing,
                            span,
                            #[inline(always)]
                            |item, record| work(window + item.position as usize, item.key, record),
                        )
                    },
                )
            },
        );
        done.map_err(|Full| {
            Error::Request(format!(
                "table `{}` is full: it cannot make more rows",
                self.config.name
            ))
        })
    }
}

impl RowStore for SparseTable {
    fn width(&self) -> usize {
        self.config.width
    }

    fn bytes(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).bytes()).sum()
    }

    fn pull(&self, keys: &[u64], out: &mut [f32]) -> Result<()> {
        self.check_len(keys, out.len(), self.width(), "values")?;
        let makes = self.config.create_on_pull && self.config.entry.made_by_pull();
        let missing = if makes { Missing::Make(self) } else { Missing::Skip };
        match &self.accessor {
            // Nearly all pulls; nothing stands between the row and its copy.
            Accessor::Plain(plain) if matches!(self.config.entry, Entry::Every) => {
                let weights = plain.weights();
                self.visit::<false>(
                    keys,
                    &missing,
                    #[inline(always)]
                    |position, key, record| {
                        let out = &mut out[position * weights.len()..][..weights.len()];
                        match record {
                            Some(record) => out.copy_from_slice(&record[weights.clone()]),
                            None => plain.pull_missing(key, out),
                        }
                    },
                )
            }
            Accessor::Plain(plain) => self.pull_by(plain, keys, out, &missing),
            Accessor::Ctr(ctr) => self.pull_by(ctr, keys, out, &missing),
        }
    }

    fn lent_width(&self) -> usize {
        self.accessor.lent_width()
    }

    fn lend(&self, keys: &[u64], out: &mut [f32]) -> Result<()> {
        self.lend_records(keys, out)
    }

    fn take_back(&self, keys: &[u64], records: &[f32]) -> Result<()> {
        self.take_records(keys, records)
    }

    fn push(
        &self,
        keys: &[u64],
        grads: &[f32],
        counts: Option<&[[f32; 2]]>,
        step: &PushStep,
    ) -> Result<()> {
        self.check_len(keys, grads.len(), self.width(), "gradients")?;
        if let Some(counts) = counts {
            self.check_len(keys, counts.len(), 1, "pairs of counts")?;
        }
        let counts_of = |position: usize| counts.map_or(ONE_SHOW, |counts| counts[position]);
        match &self.accessor {
            Accessor::Plain(plain) => {
                let push = PlainPush { table: self, plain, keys, grads, counts };
                let rate = step.rate * self.config.rate_factor;
                plain.rule().with(rate, step.count, &self.powers, push)
            }
            Accessor::Ctr(ctr) => {
                let width = self.width();
                self.visit::<true>(keys, &Missing::Make(self), |position, key, record| {
                    let Some(record) = record else { return };
                    let grads = &grads[position * width..][..width];
                    ctr.push(key, record, grads, counts_of(position));
                })
            }
        }
    }

    fn set(&self, keys: &[u64], values: &[f32]) -> Result<()> {
        let width = self.width();
        self.check_len(keys, values.len(), width, "values")?;
        self.visit::<true>(keys, &Missing::Make(&Anyone(self)), |position, _, record| {
            if let Some(record) = record {
                self.accessor.set(record, &values[position * width..][..width]);
            }
        })
    }

    fn shrink(&self) -> Shrunk {
        let mut shrunk = Shrunk::default();
        for shard in 0..SHARDS {
            let _row_moves = self.row_moves();
            let mut shard = self.lock(shard);
            if let Accessor::Ctr(_) = self.accessor {
                let keep = |_, record: &mut [f32]| self.accessor.shrink(record);
                shrunk.removed += shard.retain(keep);
            }
            shrunk.kept += shard.len();
        }
        shrunk
    }
}

impl Maker for SparseTable {
    fn admits(&self, key: u64) -> bool {
        match self.config.entry {
            Entry::Probability(share) => f64::from(self.chance.uniform(key)) < share,
            _ => true,
        }
    }

    fn fill(&self, key: u64, record: &mut [f32]) {
        self.accessor.blank(key, record);
    }
}

/// Makes rows for every key: values that come from elsewhere were admitted there.
struct Anyone<'a>(&'a SparseTable);

impl Maker for Anyone<'_> {
    fn admits(&self, _key: u64) -> bool {
        true
    }

    fn fill(&self, key: u64, record: &mut [f32]) {
        self.0.fill(key, record);
    }
}

/// A push to a plain table, waiting for the type of its rule.
struct PlainPush<'a> {
    table: &'a SparseTable,
    plain: &'a Plain,
    keys: &'a [u64],
    grads: &'a [f32],
    counts: Option<&'a [[f32; 2]]>,
}

impl RowRule for PlainPush<'_> {
    fn run<R: Loops<f32, N>, const N: usize>(self, rule: R) -> Result<()> {
        let PlainPush { table, plain, keys, grads, counts } = self;
        let (width, first) = (table.width(), plain.weights().start);
        let entry = plain.entry();
        table.visit::<true>(
            keys,
            &Missing::Make(table),
            #[inline(always)]
            |position, _, record| {
                let Some(record) = record else { return };
                let (counters, record) = record.split_at_mut(first);
                if first > 0 {
                    entry.count(counters, counts.map_or(ONE_SHOW, |counts| counts[position]));
                    if !entry.admits(counters) {
                        return;
                    }
                }
                let (weights, rest) = record.split_at_mut(width);
                let mut states = rest.chunks_exact_mut(width);
                let states = std::array::from_fn(
                    #[inline(always)]
                    |_| states.next().expect("a record has all accumulators of its rule"),
                );
                rule.each(weights, &grads[position * width..][..width], states);
            },
        )
    }
}

#[cfg(test)]
mod tests;
