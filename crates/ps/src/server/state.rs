//! What a server holds, and what requests do to it. Knows nothing of connections and of who waits.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Scope};
use bireme_ir::Program;

use super::ServerConfig;
use super::build::{Built, Rates, build};
use super::changed::Changed;
use super::crew::Crew;
use super::folders::Folders;
use super::gather::Gather;
use super::keep::Saves;
use super::lineage::Lineage;
use super::progress::Progress;
use super::tables::{RowGrads, Table};
use crate::dense::{Assembly, Block, Shared};
use crate::message::Array;
use crate::{Error, Result};

/// Everything that a server holds.
pub(super) struct State {
    pub(super) config: ServerConfig,
    pub(super) blocks: Vec<Update>,
    pub(super) tables: Vec<Table>,
    pub(super) shared: Shared,
    pub(super) rates: Option<Rates>,
    /// Which block has a value.
    of_value: HashMap<String, usize>,
    /// Which block takes what trainers send.
    of_received: HashMap<String, usize>,
    /// Geo: marks of the rows of each row-sliced table.
    changed: BTreeMap<String, Changed>,
    /// Learning rates that trainers set in this step, in sync modes.
    assigned: Mutex<BTreeMap<(u32, String), Tensor>>,
    /// Held while learning rates are computed.
    pub(super) rating: Mutex<()>,
    /// The checkpoint that is written, or was last.
    pub(super) saves: Saves,
    /// When checkpoints last moved on.
    pub(super) progress: Progress,
    assembly: Assembly,
    /// Updates applied so far; in async modes, of the variable that has had most.
    pub(super) step: AtomicU64,
    /// Where trainers may have it save and load.
    pub(super) folders: Folders,
    /// Which life of the job's state this is.
    lineage: Mutex<Lineage>,
    /// The fingerprint of the program: the server's own, or the first trainer's.
    pub(super) program: OnceLock<(String, Vec<String>)>,
    /// Threads that an update at a barrier is shared out to.
    crew: Crew,
    /// Where it really listens, where its program says port 0.
    pub(super) address: OnceLock<String>,
}

/// A block and how often it was updated.
pub(super) struct Update {
    pub(super) block: Block,
    pub(super) count: AtomicU64,
}

impl State {
    pub(super) fn new(program: &Program, scope: &Scope, config: ServerConfig) -> Result<State> {
        let Built { blocks, rates, tables, shared } = build(program, scope, &config)?;
        let (mut of_value, mut of_received) = (HashMap::new(), HashMap::new());
        for (at, block) in blocks.iter().enumerate() {
            for name in block.kept() {
                of_value.entry(name.to_owned()).or_insert(at);
            }
            of_received.extend(block.received().map(|name| (name.to_owned(), at)));
        }
        let mut changed = BTreeMap::new();
        if config.mode.sends_deltas() {
            for name in &config.row_params {
                let at = of_value.get(name).ok_or_else(|| {
                    Error::Config(format!("no block of the server's program updates `{name}`"))
                })?;
                let height = blocks[*at].read(name, Tensor::rows)?;
                changed.insert(name.clone(), Changed::new(config.trainers, height));
            }
        }
        let update = |block| Update { block, count: AtomicU64::new(0) };
        let state = State {
            config,
            blocks: blocks.into_iter().map(update).collect(),
            tables,
            shared,
            rates,
            of_value,
            of_received,
            changed,
            assigned: Mutex::default(),
            rating: Mutex::default(),
            saves: Saves::default(),
            progress: Progress::new(),
            assembly: Assembly::new(),
            step: AtomicU64::new(0),
            folders: Folders::default(),
            lineage: Mutex::default(),
            program: OnceLock::new(),
            crew: Crew::of_machine(),
            address: OnceLock::new(),
        };
        state.preview_rates()?;
        Ok(state)
    }

    /// How this server is called in messages: `server 0 (127.0.0.1:6174)`.
    pub(super) fn name(&self) -> String {
        match self.address.get() {
            Some(address) => format!("server {} ({address})", self.config.server),
            None => self.config.name(),
        }
    }

    pub(super) fn lineage(&self) -> MutexGuard<'_, Lineage> {
        self.lineage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether pushes wait for the barrier.
    pub(super) fn is_sync(&self) -> bool {
        self.config.mode.waits_for_all()
    }

    /// Takes one value of a push.
    pub(super) fn push(&self, trainer: u32, name: &str, array: &Array<'_>) -> Result<()> {
        if self.config.counters.iter().any(|known| known == name) {
            return self.count_steps(name, array);
        }
        if self.shared.contains(name) || self.config.assigned.iter().any(|known| known == name) {
            return self.assign(trainer, name, array);
        }
        let at = self.of_received.get(name).copied().ok_or_else(|| self.unknown(name))?;
        let block = &self.blocks[at].block;
        if array.is_whole() {
            return self.push_whole(trainer, at, name, array);
        }
        block.check_piece(name, array)?;
        match self.assembly.take(trainer, name, array)? {
            Some(whole) => self.push_whole(trainer, at, name, &Array::of_tensor(&whole)),
            None => Ok(()),
        }
    }

    fn push_whole(&self, trainer: u32, at: usize, name: &str, array: &Array<'_>) -> Result<()> {
        let Update { block, count } = &self.blocks[at];
        if self.config.mode.merges_at_barrier(matches!(array, Array::Rows { .. })) {
            return block.store(name, array);
        }
        if self.config.mode.sends_deltas() {
            return Err(Error::Request(format!(
                "`{name}` was pushed as a gradient, but in geo mode trainers send differences"
            )));
        }
        let step = count.fetch_add(1, Ordering::AcqRel) + 1;
        self.step.fetch_max(step, Ordering::AcqRel);
        match self.config.delay {
            Some(lambda) => block.apply_delayed(name, array, &self.shared, step, (trainer, lambda)),
            None => block.apply(name, array, &self.shared, step),
        }
    }

    /// A trainer has made so many steps: the schedules go on.
    fn count_steps(&self, name: &str, array: &Array<'_>) -> Result<()> {
        let rates = self.rates.as_ref().ok_or_else(|| self.unknown(name))?;
        let _rating = self.rating.lock().unwrap_or_else(PoisonError::into_inner);
        rates.block.add(name, array)?;
        self.compute_rates(rates, 0)
    }

    /// A trainer computes a learning rate itself.
    fn assign(&self, trainer: u32, name: &str, array: &Array<'_>) -> Result<()> {
        let mut tensor = Tensor::empty(array.dtype());
        array.store_tensor(&mut tensor)?;
        if self.is_sync() {
            let mut assigned = self.assigned.lock().unwrap_or_else(PoisonError::into_inner);
            assigned.insert((trainer, name.to_owned()), tensor);
        } else {
            self.shared.set(name, &tensor);
        }
        Ok(())
    }

    /// One step of sync modes: learning rates, then all blocks, then the tables. `trainers` took
    /// part.
    pub(super) fn update(&self, trainers: usize) -> Result<()> {
        let step = self.step.load(Ordering::Acquire) + 1;
        let assigned =
            std::mem::take(&mut *self.assigned.lock().unwrap_or_else(PoisonError::into_inner));
        // The last one wins; trainers that compute rates all compute the same.
        assigned.iter().for_each(|((_, name), tensor)| self.shared.set(name, tensor));
        if let Some(rates) = &self.rates {
            self.compute_rates(rates, step)?;
        }
        self.update_blocks(step)?;
        if self.config.mode.merges_at_barrier(true) {
            for table in &self.tables {
                table.update(trainers, &self.shared, step, &self.crew)?;
            }
        }
        self.step.fetch_max(step, Ordering::AcqRel);
        Ok(())
    }

    /// Blocks and their parts are independent, so which thread has which changes nothing.
    fn update_blocks(&self, step: u64) -> Result<()> {
        let (mut begun, mut parts, mut size) = (Vec::new(), Vec::new(), 0);
        for Update { block, count } in &self.blocks {
            if let Some(update) = block.begin_update(&self.shared, step)? {
                let (number, elements) = (block.parts(&update), block.update_size(&update));
                parts.extend((0..number).map(|part| (elements / number, begun.len(), part)));
                size += elements;
                begun.push((block, count, update));
            }
        }
        // The largest first, so that threads end together.
        parts.sort_by_key(|(elements, ..)| std::cmp::Reverse(*elements));
        self.crew.share(parts.len(), size, |at| {
            let (_, block, part) = parts[at];
            let (block, _, update) = &begun[block];
            block.update_part(update, part, &self.shared, step)
        })?;
        for (_, count, _) in &begun {
            count.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    fn compute_rates(&self, rates: &Rates, step: u64) -> Result<()> {
        rates.block.run_all(&self.shared, step)?;
        self.export_rates(rates)
    }

    pub(super) fn export_rates(&self, rates: &Rates) -> Result<()> {
        for name in &rates.exports {
            rates.block.read(name, |rate| self.shared.set(name, rate))?;
        }
        Ok(())
    }

    /// Computes the rates of the first step without taking it: what comes before the first barrier
    /// or counter (pushes of rows, of a fast queue) has them already.
    pub(super) fn preview_rates(&self) -> Result<()> {
        let Some(rates) = &self.rates else { return Ok(()) };
        let names: Vec<&str> = rates.kept.iter().map(String::as_str).collect();
        let copy = |values: &[&Tensor]| values.iter().map(|v| (*v).clone()).collect::<Vec<_>>();
        let before = rates.block.read_all(&names, copy)?;
        if let Some(counter) = self.config.counters.first() {
            let dtype = rates.block.read(counter, Tensor::dtype)?;
            if let Some(one) = one(dtype) {
                rates.block.add(counter, &Array::of_tensor(&one))?;
            }
        }
        self.compute_rates(rates, 0)?;
        for (name, value) in names.iter().zip(&before) {
            rates.block.set(name, &Array::of_tensor(value))?;
        }
        Ok(())
    }

    /// Whether values for a step are those that are expected when its gradients arrive. Delay
    /// compensation corrects the gradients instead.
    pub(super) fn looks_ahead(&self) -> bool {
        self.config.mode.applies_at_once() && self.config.delay.is_none()
    }

    /// Copies values for a trainer, from element `start` of the first on, as they are expected to
    /// be after `ahead` more updates; of those that it has in these `versions`, says so.
    pub(super) fn get<'a>(
        &self,
        trainer: u32,
        names: &[&'a str],
        start: u64,
        versions: &[u64],
        ahead: u32,
        to: &mut Gather<'a>,
    ) -> Result<()> {
        for (at, name) in names.iter().enumerate() {
            let start = if at == 0 { start } else { 0 };
            let known = versions.get(at).copied().filter(|version| *version > 0 && start == 0);
            let whole = if let Some(block) = self.of_value.get(*name) {
                let block = &self.blocks[*block].block;
                match self.config.delay {
                    Some(_) => {
                        block.read_for(trainer, name, |tensor| to.dense(name, tensor, start))?
                    }
                    None => block.read_ahead(name, ahead, |tensor, ahead, version| {
                        if known == Some(version) {
                            return to.nothing_new(name, tensor, version);
                        }
                        let before = to.len();
                        let whole = to.dense(name, tensor, start);
                        if to.len() > before {
                            to.version(version);
                            if let Some(ahead) = ahead {
                                to.adjust_last(|start, values| ahead.apply(start, values));
                            }
                        }
                        whole
                    })?,
                }
            } else if let Some(tensor) = self.shared.get(name) {
                to.dense(name, &tensor, start)
            } else {
                return Err(self.unknown(name));
            };
            if !whole {
                break;
            }
        }
        Ok(())
    }

    /// Rows of a table, keyed or row-sliced, one after the other; at most `limit` bytes, or nothing
    /// is looked up or made.
    pub(super) fn pull_rows(
        &self,
        table: &str,
        keys: &[u64],
        limit: usize,
        out: &mut Vec<f32>,
    ) -> Result<()> {
        let check = |width| numbers_in(table, keys.len(), width, limit);
        if let Some(table) = self.tables.iter().find(|known| known.name == table) {
            let numbers = check(table.rows.width())?;
            // What is left of an earlier answer is overwritten, so it need not be cleared.
            out.resize(numbers, 0.0);
            return table.rows.pull(keys, out);
        }
        let at = self.of_value.get(table).ok_or_else(|| self.unknown(table))?;
        check(self.blocks[*at].block.row_width(table)?)?;
        self.blocks[*at].block.copy_rows(table, keys, out)
    }

    /// Whole records of a keyed table, one after the other, as a trainer is lent them; at most `limit` bytes.
    pub(super) fn pull_records(
        &self,
        table: &str,
        keys: &[u64],
        limit: usize,
        out: &mut Vec<f32>,
    ) -> Result<()> {
        let rows = &self.table(table)?.rows;
        out.resize(numbers_in(table, keys.len(), rows.lent_width(), limit)?, 0.0);
        rows.lend(keys, out)
    }

    /// Records that a trainer has trained up to its step `step`.
    pub(super) fn push_records(
        &self,
        table: &str,
        step: u64,
        keys: &[u64],
        records: &[f32],
    ) -> Result<()> {
        let table = self.table(table)?;
        table.rows.take_back(keys, records)?;
        table.pushes.fetch_max(step, Ordering::AcqRel);
        self.step.fetch_max(step, Ordering::AcqRel);
        Ok(())
    }

    /// Gradients of rows of a keyed table.
    pub(super) fn push_rows(&self, trainer: u32, table: &str, rows: RowGrads<'_>) -> Result<()> {
        let table = self.table(table)?;
        if self.config.mode.merges_at_barrier(true) {
            return table.store(trainer, rows);
        }
        let count = table.apply(rows, &self.shared)?;
        self.step.fetch_max(count, Ordering::AcqRel);
        Ok(())
    }

    /// Geo: adds a difference, and marks what it changed for everybody.
    pub(super) fn push_delta(&self, name: &str, delta: &Array<'_>) -> Result<()> {
        let at = self.of_value.get(name).ok_or_else(|| self.unknown(name))?;
        let Update { block, count } = &self.blocks[*at];
        block.add(name, delta)?;
        if let Some(changed) = self.changed.get(name) {
            match delta {
                Array::Rows { rows, .. } => changed.mark(rows),
                Array::Dense { .. } => changed.mark_all(block.read(name, Tensor::rows)?),
            }
        }
        let step = count.fetch_add(1, Ordering::AcqRel) + 1;
        self.step.fetch_max(step, Ordering::AcqRel);
        Ok(())
    }

    /// Geo: what changed of tables since `trainer` last asked, and other parameters whole.
    pub(super) fn pull_geo<'a>(
        &self,
        trainer: u32,
        names: &[&'a str],
        start: u64,
        to: &mut Gather<'a>,
    ) -> Result<()> {
        for (at, name) in names.iter().enumerate() {
            let Some(changed) = self.changed.get(*name) else {
                let start = if at == 0 { start } else { 0 };
                let before = to.len();
                self.get(trainer, &[*name], start, &[], 0, to)?;
                if to.len() == before || !to.is_whole() {
                    break;
                }
                continue;
            };
            let block = &self.blocks[self.of_value[*name]].block;
            let width = block.read(name, |w| w.as_bytes().len() / w.rows().max(1))?;
            let rows = changed.take(trainer, to.rows_that_fit(width));
            block.read(name, |tensor| to.rows(name, tensor, rows))?;
        }
        Ok(())
    }

    /// Sets initial values.
    pub(super) fn set(&self, name: &str, array: &Array<'_>) -> Result<()> {
        if let Some(at) = self.of_value.get(name) {
            return self.blocks[*at].block.set(name, array);
        }
        if self.shared.contains(name) {
            let mut tensor = Tensor::empty(array.dtype());
            array.store_tensor(&mut tensor)?;
            self.shared.set(name, &tensor);
            return Ok(());
        }
        Err(self.unknown(name))
    }

    /// Geo: every row of every table is news to every trainer.
    pub(super) fn mark_all_changed(&self) -> Result<()> {
        for (table, changed) in &self.changed {
            let height = self.blocks[self.of_value[table]].block.read(table, Tensor::rows)?;
            changed.mark_all(height);
        }
        Ok(())
    }

    /// Forgets what belongs to a trainer that is gone.
    pub(super) fn forget(&self, trainer: u32) {
        self.assembly.forget(trainer);
        self.blocks.iter().for_each(|update| update.block.forget(trainer));
    }

    /// The tables that a request means: one, or all.
    pub(super) fn tables_named(&self, name: Option<&str>) -> Result<Vec<&Table>> {
        match name {
            Some(name) => Ok(vec![self.table(name)?]),
            None => Ok(self.tables.iter().collect()),
        }
    }

    pub(super) fn table(&self, name: &str) -> Result<&Table> {
        let table = self.tables.iter().find(|known| known.name == name);
        table.ok_or_else(|| {
            let known: Vec<&str> = self.tables.iter().map(|table| table.name.as_str()).collect();
            let server = self.name();
            Error::Request(format!("{server} has no keyed table `{name}`; it has {known:?}"))
        })
    }

    /// The block that has a value.
    pub(super) fn block_of(&self, name: &str) -> Option<&Block> {
        self.of_value.get(name).map(|at| &self.blocks[*at].block)
    }

    fn unknown(&self, name: &str) -> Error {
        Error::Request(format!(
            "{} has no variable `{name}`: do trainers and servers run programs of one `transpile`, \
             with the same endpoints?",
            self.name()
        ))
    }
}

/// How many numbers so many rows have, if a message can hold them.
fn numbers_in(table: &str, rows: usize, width: usize, limit: usize) -> Result<usize> {
    match rows.checked_mul(width.saturating_mul(4)) {
        Some(bytes) if bytes <= limit => Ok(rows * width),
        _ => Err(Error::Request(format!(
            "{rows} rows of {width} numbers of table `{table}` do not fit into a message of {limit} \
             bytes: pull fewer at a time"
        ))),
    }
}

/// The number 1 as a counter's type.
fn one(dtype: DType) -> Option<Tensor> {
    match dtype {
        DType::F32 => Some(Tensor::scalar(1.0f32)),
        DType::F64 => Some(Tensor::scalar(1.0f64)),
        DType::I32 => Some(Tensor::scalar(1i32)),
        DType::I64 => Some(Tensor::scalar(1i64)),
        _ => None,
    }
}
