//! The keyed tables of a server, and in sync modes the pushes that wait for the barrier.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_ir::{Block, Program, Var};

use super::crew::Crew;
use crate::dense::Shared;
use crate::table::{PushStep, RowStore, SparseTable, TableConfig, part_of};
use crate::{Error, Result};

/// One keyed table.
pub(super) struct Table {
    pub(super) name: String,
    pub(super) rows: Arc<dyn RowStore>,
    /// The learning rate's variable.
    rate: Option<String>,
    /// Updates applied so far.
    pub(super) pushes: AtomicU64,
    /// Pushes of this step, in sync modes.
    waiting: Mutex<Waits>,
}

/// Pushes that wait for the barrier, by trainer, and memory for those of the next step.
#[derive(Default)]
struct Waits {
    by_trainer: BTreeMap<u32, Vec<Waiting>>,
    spare: Vec<Waiting>,
}

/// A push that waits for the barrier.
#[derive(Default)]
struct Waiting {
    keys: Vec<u64>,
    grads: Vec<f32>,
    counts: Option<Vec<[f32; 2]>>,
}

/// A row of a table takes as long to find and to update as so many that follow one another.
const ROW: usize = 8;
/// Buffers that are kept from one step to the next.
const MAX_SPARE: usize = 64;

/// Gradients of rows on their way.
#[derive(Clone, Copy)]
pub(super) struct RowGrads<'a> {
    pub(super) keys: &'a [u64],
    pub(super) grads: &'a [f32],
    pub(super) counts: Option<&'a [[f32; 2]]>,
}

impl<'a> RowGrads<'a> {
    /// Checks that there is one gradient and one count for each key.
    pub(super) fn new(
        keys: &'a [u64],
        grads: &'a [f32],
        counts: Option<&'a [[f32; 2]]>,
    ) -> Result<RowGrads<'a>> {
        let fits = grads.len().is_multiple_of(keys.len());
        if !fits || counts.is_some_and(|counts| counts.len() != keys.len()) {
            let problem = "a push has not one gradient and one count for each key";
            return Err(Error::Request(problem.to_owned()));
        }
        Ok(RowGrads { keys, grads, counts })
    }
}

impl Table {
    /// Makes the table that `block` describes.
    pub(super) fn new(program: &Program, name: &str, block: &Block) -> Result<Table> {
        let var: Option<&Var> =
            program.find_var(block.idx, name).or_else(|| program.global().var(name));
        let var = var.ok_or_else(|| {
            Error::Config(format!("table `{name}` is not declared in the server's program"))
        })?;
        let mut config = TableConfig::from_block(var, block)?;
        if config.seed == 0 {
            config.seed = program.random_seed;
        }
        let optimizer = block.ops.iter().find(|op| !op.inputs_of("LearningRate").is_empty());
        // The table itself multiplies it by the parameter's own factor.
        let rate = optimizer.map(|op| op.inputs_of("LearningRate")[0].clone());
        Ok(Table {
            name: name.to_owned(),
            rows: Arc::new(SparseTable::new(config)?),
            rate,
            pushes: AtomicU64::new(0),
            waiting: Mutex::default(),
        })
    }

    /// The learning rate's variable.
    pub(super) fn rate(&self) -> Option<&str> {
        self.rate.as_deref()
    }

    /// Applies gradients at once; returns how many updates there have been.
    pub(super) fn apply(&self, rows: RowGrads<'_>, shared: &Shared) -> Result<u64> {
        let count = self.pushes.fetch_add(1, Ordering::AcqRel) + 1;
        let step = PushStep { rate: self.rate_now(shared)?, count };
        self.rows.push(rows.keys, rows.grads, rows.counts, &step)?;
        Ok(count)
    }

    /// Keeps gradients for the barrier.
    pub(super) fn store(&self, trainer: u32, rows: RowGrads<'_>) -> Result<()> {
        let width = self.rows.width();
        if rows.grads.len() != rows.keys.len() * width {
            return Err(Error::Request(format!(
                "table `{}`: {} keys with {width} columns each came with {} gradients",
                self.name,
                rows.keys.len(),
                rows.grads.len()
            )));
        }
        let mut push = self.waits().spare.pop().unwrap_or_default();
        push.keys.clear();
        push.keys.extend_from_slice(rows.keys);
        push.grads.clear();
        push.grads.extend_from_slice(rows.grads);
        push.counts = rows.counts.map(<[_]>::to_vec);
        self.waits().by_trainer.entry(trainer).or_default().push(push);
        Ok(())
    }

    /// Applies what waits, as one push: the mean over `trainers`, added up in their order. The
    /// threads of `crew` have the keys of some shards each, so that no row is met by two, and
    /// those of a shard keep their order.
    pub(super) fn update(
        &self,
        trainers: usize,
        shared: &Shared,
        count: u64,
        crew: &Crew,
    ) -> Result<()> {
        let waiting = std::mem::take(&mut self.waits().by_trainer);
        self.pushes.store(count, Ordering::Release);
        let mut pushes: Vec<Waiting> = waiting.into_values().flatten().collect();
        let keys: usize = pushes.iter().map(|push| push.keys.len()).sum();
        if keys == 0 {
            return Ok(());
        }
        let step = PushStep { rate: self.rate_now(shared)?, count };
        let factor = (trainers > 1).then(|| 1.0 / trainers as f32);
        let elements = keys * self.rows.width() * ROW;
        let parts = crew.worth(elements);
        crew.share(parts, elements, |part| {
            let mut sum = Merged::new(self.rows.width());
            let is_mine = |key: u64| parts == 1 || part_of(key, parts) == part;
            pushes.iter().for_each(|push| sum.add(push, is_mine));
            let Waiting { keys, mut grads, counts } = sum.sum;
            if let Some(factor) = factor {
                grads.iter_mut().for_each(|grad| *grad *= factor);
            }
            match keys.is_empty() {
                true => Ok(()),
                false => self.rows.push(&keys, &grads, counts.as_deref(), &step),
            }
        })?;
        let spare = &mut self.waits().spare;
        pushes.truncate(MAX_SPARE.saturating_sub(spare.len()));
        spare.append(&mut pushes);
        Ok(())
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rate_now(&self, shared: &Shared) -> Result<f32> {
        let Some(name) = &self.rate else { return Ok(0.0) };
        shared.number(name).ok_or_else(|| {
            let table = &self.name;
            Error::Config(format!("table `{table}`: learning rate `{name}` has no value yet"))
        })
    }
}

/// Pushes added up by key, in the order in which keys first came.
struct Merged {
    sum: Waiting,
    width: usize,
    /// Where each key is; filled when a second push comes.
    places: HashMap<u64, usize, BuildHasherDefault<KeyHasher>>,
}

impl Merged {
    fn new(width: usize) -> Merged {
        Merged { sum: Waiting::default(), width, places: HashMap::default() }
    }

    /// Adds the keys that `is_mine` accepts.
    fn add(&mut self, push: &Waiting, is_mine: impl Fn(u64) -> bool) {
        let is_first = self.sum.keys.is_empty();
        if self.places.is_empty() {
            let keys = self.sum.keys.iter().enumerate();
            self.places = keys.map(|(place, key)| (*key, place)).collect();
        }
        let (width, one) = (self.width, [1.0, 0.0]);
        if push.counts.is_some() && self.sum.counts.is_none() {
            // As a table takes it: without counts, each key was shown once.
            self.sum.counts = Some(vec![one; self.sum.keys.len()]);
        }
        for (at, key) in push.keys.iter().enumerate().filter(|(_, key)| is_mine(**key)) {
            let grads = &push.grads[at * width..][..width];
            let count = push.counts.as_ref().map_or(one, |counts| counts[at]);
            // A push names a key once.
            let known = if is_first { None } else { self.places.get(key) };
            match known {
                Some(place) => {
                    let sum = &mut self.sum.grads[place * width..][..width];
                    sum.iter_mut().zip(grads).for_each(|(sum, grad)| *sum += grad);
                    if let Some(counts) = &mut self.sum.counts {
                        let sum = &mut counts[*place];
                        *sum = [sum[0] + count[0], sum[1] + count[1]];
                    }
                }
                None => {
                    if !is_first {
                        self.places.insert(*key, self.sum.keys.len());
                    }
                    self.sum.keys.push(*key);
                    self.sum.grads.extend_from_slice(grads);
                    if let Some(counts) = &mut self.sum.counts {
                        counts.push(count);
                    }
                }
            }
        }
    }
}

/// Spreads keys, which are hashes or small numbers already, by one multiplication.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, key: u64) {
        let product = (self.0 ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }
}
