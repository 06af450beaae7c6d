//! GPUBox: a trainer that holds the rows of a pass itself, as variables of its scope.
//!
//! A pass makes the job a local one. Its keys are given rows once; the records of these rows (weights
//! and optimizer state) come from the servers' tables into ordinary variables, and the trainer's
//! program, which `transpiler/src/gpubox.rs` writes, trains them on the card as it trains any
//! parameter. Rows stay from one pass to the next, so that only keys that are new are brought; what
//! was trained goes back when a pass ends, and when somebody asks for what the servers have
//! ([`Passes::flush`]): a save, a shrink, the end. While a pass trains, the next one is made ready by
//! an [`Ahead`].
//!
//! Several trainers hold the rows of a pass together, each those that it owns (`ranks`); their steps
//! exchange rows, and each gives the servers its own.
//!
//! Data that is read while it is trained has no passes: a [`Stream`] gives each batch its rows.

mod ahead;
mod giving;
mod plan;
mod ranks;
mod report;
mod resident;
mod rows;
mod stream;

use std::sync::Arc;
use std::time::Instant;

use bireme_collective::Group;
use bireme_data::{KeyedPart, MemoryDataset, Wanted};
use bireme_engine::device::Device;
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Executor, Place, Scope};
use bireme_ir::Program;
use bireme_ps::worker::Worker;

use crate::{Error, Result};
pub use ahead::Ahead;
use ahead::Shared;
use giving::{Giving, Parcel};
pub use plan::{PassPlan, PassTable, PassVariable};
use ranks::Ranks;
pub use report::PassReport;
use resident::Resident;
pub use rows::PassRun;
use rows::{Resolved, Used};
pub use stream::{Stream, StreamReport, Tell};

/// Of a card's free memory, the part that rows of passes may take: a step needs memory, too.
const SHARE_OF_CARD: f64 = 0.7;

/// What a trainer had the servers do to their records, besides training them: other trainers hold copies, too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changed {
    Nothing,
    /// A save has marked them.
    Marks,
    /// They were loaded, dropped or aged.
    Records,
}

/// The passes of a trainer.
pub struct Passes {
    plan: Arc<PassPlan>,
    worker: Arc<Worker>,
    /// Moves rows; its scope is the trainer's.
    executor: Executor,
    tables: Vec<Resident>,
    /// The trainers that hold other rows.
    ranks: Option<Ranks>,
    /// Of each table: how many rows fit that one rank asks of another.
    rooms: Vec<u64>,
    shared: Arc<Shared>,
    /// What the servers are being given.
    giving: Giving,
    /// Bytes that rows may take.
    budget: Option<usize>,
    /// Steps that were trained, by whoever trained the servers' tables.
    step: u64,
    /// Whether something was trained that the servers do not have.
    is_ahead: bool,
    /// What the servers' records have become through this trainer since the last pass began.
    changed: Changed,
    /// Counts how often keys that had rows were given others.
    numbering: u64,
    /// The samples that were trained last, and their row numbers, if they have any.
    used: Used,
    resolved: Option<Resolved>,
    report: PassReport,
    since: Instant,
    /// Holds the rows instead of `tables`, where data is read while it is trained.
    stream: Option<Arc<stream::Shared>>,
}

impl Passes {
    /// The passes of `program` on `scope`; `None` for a program that is no GPUBox trainer's. Takes the
    /// servers' parameters over. `budget` is how many bytes rows may take; most of the card's memory
    /// where nobody says. `group` are the trainers of the job, all of which make this call together.
    ///
    /// # Errors
    /// When the program's descriptions do not fit, or a server or another trainer is lost.
    pub fn open(
        program: &Program,
        worker: &Arc<Worker>,
        scope: &Scope,
        device: Option<&Arc<dyn Device>>,
        budget: Option<usize>,
        group: Option<&Group>,
    ) -> Result<Option<Passes>> {
        let Some(plan) = PassPlan::of(program)? else { return Ok(None) };
        let group = group.filter(|group| group.size() > 1);
        if plan.tables.iter().any(|table| table.room.is_some() != group.is_some()) {
            return Err(Error::Config(format!(
                "the program is that of a job with another number of trainers than {}: start all processes \
                 with the same settings",
                group.map_or(1, Group::size)
            )));
        }
        let plan = Arc::new(plan);
        let budget = match (budget, device) {
            (None, Some(device)) => Some((device.memory()?.free as f64 * SHARE_OF_CARD) as usize),
            (given, _) => given,
        };
        let executor = match device {
            Some(device) => Executor::on(Arc::clone(device)),
            None => Executor::new(Place::Cpu)?,
        };
        let apart = || group.map(Ranks::apart).transpose();
        let (ranks, beside) = (apart()?, apart()?);
        let tables = plan.tables.iter().map(|_| Resident::new(ranks.is_some())).collect();
        let rooms = vec![0; plan.tables.len()];
        let shared = Arc::new(Shared::new(Arc::clone(&plan), Arc::clone(worker), beside, budget));
        let mut passes = Passes {
            plan,
            worker: Arc::clone(worker),
            executor: executor.with_scope(scope.clone()),
            tables,
            ranks,
            rooms,
            shared,
            giving: Giving::default(),
            budget,
            step: 0,
            is_ahead: false,
            changed: Changed::Nothing,
            numbering: 0,
            used: Used::default(),
            resolved: None,
            report: PassReport::default(),
            since: Instant::now(),
            stream: None,
        };
        passes.refresh()?;
        passes.changed = Changed::Nothing;
        Ok(Some(passes))
    }

    /// What the program says of its tables.
    pub fn plan(&self) -> &PassPlan {
        &self.plan
    }

    /// Bytes that rows of a pass may take; a pass that needs more is cut in parts.
    pub fn budget(&self) -> Option<usize> {
        self.budget
    }

    /// The card that rows lie on, if there is one.
    pub fn device(&self) -> Option<&Arc<dyn Device>> {
        self.executor.device()
    }

    /// Makes passes ready while another is trained; for any thread.
    pub fn ahead(&self) -> Ahead {
        Ahead(Arc::clone(&self.shared))
    }

    /// How many trainers hold the rows of a pass.
    pub fn ranks(&self) -> usize {
        self.ranks.as_ref().map_or(1, Ranks::size)
    }

    /// Whether all trainers say so; they make this call together.
    ///
    /// # Errors
    /// When another trainer is lost.
    pub fn all_say(&self, mine: bool) -> Result<bool> {
        match &self.ranks {
            None => Ok(mine),
            Some(ranks) => Ok(ranks.least(u64::from(mine))? == 1),
        }
    }

    /// What `data` holds, as one pass, or as several where its rows would not fit; found by so many threads.
    /// All trainers make this call together, and have as many passes of as many batches.
    ///
    /// # Errors
    /// When the data has not what the tables need, one batch alone does not fit, or a trainer is lost.
    pub fn parts(
        &self,
        data: &MemoryDataset,
        threads: usize,
    ) -> bireme_data::Result<Vec<KeyedPart>> {
        let least = |mine: u64| match &self.ranks {
            None => Ok(mine),
            Some(ranks) => {
                ranks.least(mine).map_err(|error| bireme_data::Error::Peers(error.to_string()))
            }
        };
        let (groups, bytes) = (self.plan.groups(), self.plan.bytes_of_rows());
        let wanted = Wanted {
            groups: &groups,
            bytes_of_key: &bytes,
            most: self.budget,
            ranks: self.ranks(),
            device: self.executor.device(),
            least: &least,
        };
        data.keyed_parts(&wanted, threads)
    }

    /// Begins a pass: afterwards there are rows for its keys. All trainers make this call together.
    ///
    /// # Errors
    /// When a server or another trainer is lost, or the card has no memory.
    pub fn begin(&mut self, part: &KeyedPart) -> Result<()> {
        if self.stream.is_some() {
            self.flush()?;
            self.stream = None;
        }
        let waiting = Instant::now();
        self.shared.settle();
        self.follow_others()?;
        self.resolved.take_if(|resolved| !resolved.are_used());
        self.report =
            PassReport { pass: self.report.pass + 1, ids: part.ids, ..PassReport::default() };
        let tables = self.plan.tables.iter().zip(&part.keys);
        let keys: Vec<Vec<u64>> = tables.map(|(table, keys)| table.without_padding(keys)).collect();
        let mut asked = Vec::new();
        if let Some(ranks) = &self.ranks {
            asked = keys.iter().map(|keys| ranks.ask(keys)).collect::<Result<Vec<_>>>()?;
        }
        let own =
            if asked.is_empty() { keys } else { asked.iter().map(|asked| asked.own()).collect() };
        let mut prepared = self.shared.take(&own).map(Vec::into_iter);
        self.report.wait_seconds = waiting.elapsed().as_secs_f64();
        for (at, keys) in own.iter().enumerate() {
            let pulling = Instant::now();
            let new = match prepared.as_mut().and_then(Iterator::next) {
                Some(new) => new,
                None => self.shared.pull(at, self.tables[at].index(), keys)?,
            };
            self.report.pull_seconds += pulling.elapsed().as_secs_f64();
            self.report.unique += keys.len() as u64;
            self.report.new += new.keys.len() as u64;
            self.bring(at, keys, &new)?;
            if let Some(asked) = asked.get(at) {
                self.share_rows(at, asked, part.most.get(at).copied().unwrap_or(0))?;
            }
        }
        self.report.bytes =
            self.plan.tables.iter().zip(&self.tables).map(|(table, rows)| rows.bytes(table)).sum();
        let indexes = self.tables.iter().map(|table| Arc::clone(table.index())).collect();
        self.shared.begin(indexes);
        self.since = Instant::now();
        Ok(())
    }

    /// One trainer may have had the servers load, drop or mark records: the copies of the others are of before.
    fn follow_others(&mut self) -> Result<()> {
        let Some(ranks) = &self.ranks else { return Ok(()) };
        let most = ranks.most(self.changed as u64)?;
        if most == Changed::Records as u64 {
            self.refresh()?;
        } else if most == Changed::Marks as u64 {
            self.reload()?;
        }
        self.changed = Changed::Nothing;
        Ok(())
    }

    /// Gives the new keys of table `at` their rows: beside those that are there, if there is room.
    fn bring(&mut self, at: usize, keys: &[u64], new: &ahead::Records) -> Result<()> {
        let moving = Instant::now();
        let plan = Arc::clone(&self.plan);
        let (table, share, count) = (&plan.tables[at], self.share(at), new.keys.len());
        let rows = &self.tables[at];
        let has_room = rows.has_room(count);
        let mut capacity = match has_room {
            true => rows.capacity(),
            false => rows.new_capacity(table, keys, count, share),
        };
        if let Some(ranks) = &self.ranks {
            // All have as many: the number of a row says whose it is.
            capacity = ranks.most(capacity as u64)? as usize;
        }
        if has_room && capacity == self.tables[at].capacity() {
            self.tables[at].put(table, &mut self.executor, new)?;
        } else {
            let loses = self.tables[at].loses_rows(table, keys, count, share);
            if loses {
                // What leaves must not be lost.
                self.flush()?;
            }
            self.numbering += 1;
            let scope = self.executor.scope();
            self.tables[at].rebuild(table, scope, keys, new, (capacity, loses))?;
        }
        self.report.move_seconds += moving.elapsed().as_secs_f64();
        Ok(())
    }

    /// Tells the other ranks the rows of table `at` that they asked for, and the program where those lie that
    /// this one did; `most` keys of one rank are in a batch at most.
    fn share_rows(&mut self, at: usize, asked: &ranks::Asked, most: u64) -> Result<()> {
        let Some(ranks) = &self.ranks else { return Ok(()) };
        let (table, rows, scope) = (&self.plan.tables[at], &self.tables[at], self.executor.scope());
        let index = ranks.answer(asked, rows.index(), rows.capacity(), 0)?;
        scope.take_over([(table.index.as_str(), index.tensor().clone())])?;
        let room = ranks::room_for(ranks.most(most)?, self.rooms[at]);
        if let (Some(name), true) = (&table.room, room != self.rooms[at]) {
            scope.take_over([(name.as_str(), Tensor::zeros(DType::I32, [room as usize]))])?;
            self.rooms[at] = room;
        }
        Ok(())
    }

    /// Bytes that the rows of table `at` may take: its part of all, by the sizes of rows.
    fn share(&self, at: usize) -> Option<usize> {
        let all: usize = self.plan.tables.iter().map(PassTable::bytes_of_row).sum();
        let own = self.plan.tables[at].bytes_of_row();
        self.budget.map(|budget| (budget as f64 * own as f64 / all.max(1) as f64) as usize)
    }

    /// The pass is over: the servers are being given what was trained, which [`Passes::flush`] waits
    /// for, and the rows stay. Whoever makes the next one ready waits until that begins.
    ///
    /// # Errors
    /// When a server is lost.
    pub fn end(&mut self) -> Result<()> {
        self.shared.pause();
        // A stream gives back by itself, and the rest when it is flushed.
        if !self.is_ahead || self.stream.is_some() {
            return Ok(());
        }
        // Where servers take longer than a pass does, the next one does not wait for them.
        if self.giving.is_under_way() {
            return Ok(());
        }
        let giving = Instant::now();
        let (mut records, scope) = (Vec::new(), self.executor.scope());
        for (at, (table, rows)) in self.plan.tables.iter().zip(&mut self.tables).enumerate() {
            rows.give(table, scope, |keys, values| {
                records.push((at, keys, values));
                Ok(())
            })?;
        }
        let parcel = Parcel { records, dense: self.dense()?, step: self.step };
        self.giving.start(parcel, &self.plan, &self.worker)?;
        self.is_ahead = false;
        self.report.push_seconds += giving.elapsed().as_secs_f64();
        Ok(())
    }

    /// The values of parameters that are no tables, if this trainer gives them to the servers: they are
    /// the same on all ranks, and the first does.
    fn dense(&self) -> Result<Option<Vec<Tensor>>> {
        if self.ranks.as_ref().is_some_and(|ranks| ranks.rank() > 0) {
            return Ok(None);
        }
        let scope = self.executor.scope();
        let values = self.plan.dense.iter().map(|piece| scope.get(&piece.name));
        Ok(Some(values.collect::<bireme_engine::Result<Vec<Tensor>>>()?))
    }

    /// Training over data that is read meanwhile: the rows of a pass, if there are any, are given back,
    /// and those of an earlier stream stay. All trainers make this call together.
    ///
    /// # Errors
    /// When a server or another trainer is lost, or rows of the stream were lost.
    pub fn stream(&mut self) -> Result<Stream> {
        if self.ranks.is_some() {
            self.shared.settle();
            self.follow_others()?;
        }
        let shared = match &self.stream {
            Some(shared) => shared,
            None => {
                self.flush()?;
                self.shared.forget();
                let is_part = self.ranks.is_some();
                self.tables.iter_mut().for_each(|table| *table = Resident::new(is_part));
                self.rooms.fill(0);
                let ranks = self.ranks.as_ref().map(Ranks::beside).transpose()?;
                let executor = match self.executor.device() {
                    Some(device) => Executor::on(Arc::clone(device)),
                    None => Executor::new(Place::Cpu)?,
                };
                let executor = executor.with_scope(self.executor.scope().clone());
                let (plan, worker) = (&self.plan, &self.worker);
                let made = stream::Shared::new(plan, worker, executor, self.budget, ranks)?;
                self.stream.insert(made)
            }
        };
        shared.stream(self.step)
    }

    /// What was streamed since this was asked last; `None` where rows come in passes.
    pub fn take_stream_report(&self) -> Option<StreamReport> {
        Some(self.stream.as_ref()?.take_report())
    }

    /// So many steps of this pass, or of a stream, were trained.
    pub fn trained(&mut self, steps: u64) {
        if steps == 0 {
            return;
        }
        self.step += steps;
        self.is_ahead = true;
        self.tables.iter_mut().for_each(Resident::mark_trained);
        self.report.steps += steps;
        self.report.train_seconds = self.since.elapsed().as_secs_f64();
    }

    /// What the last pass was, and how long its parts took.
    pub fn report(&self) -> &PassReport {
        &self.report
    }

    /// Gives the servers everything that was trained since they were last given something.
    ///
    /// # Errors
    /// When a server is lost.
    pub fn flush(&mut self) -> Result<()> {
        self.giving.finish()?;
        if !self.is_ahead && !self.stream.as_ref().is_some_and(|stream| stream.is_ahead()) {
            return Ok(());
        }
        let pushing = Instant::now();
        if let Some(stream) = &self.stream {
            stream.flush()?;
        }
        for (table, rows) in self.plan.tables.iter().zip(&mut self.tables) {
            rows.give(table, self.executor.scope(), |keys, records| {
                giving::push(table, &self.worker, &keys, &records, self.step)
            })?;
        }
        if let Some(values) = self.dense()? {
            giving::set_dense(&self.plan.dense, &self.worker, &values)?;
        }
        self.is_ahead = false;
        let took = pushing.elapsed();
        self.report.push_seconds += took.as_secs_f64();
        // It is no time of training.
        self.since += took;
        Ok(())
    }

    /// A save has marked the records that it took, and let them age if it was told to: the trainer's
    /// copies of records that keep such marks become those of the servers. All that was trained must
    /// have been given to them before.
    ///
    /// # Errors
    /// When a server is lost.
    pub fn reload(&mut self) -> Result<()> {
        if self.changed == Changed::Nothing {
            self.changed = Changed::Marks;
        }
        self.giving.finish()?;
        self.shared.forget_prepared();
        if let Some(stream) = &self.stream
            && self.plan.tables.iter().any(|table| table.accessor.is_some())
        {
            stream.check_at_rest()?;
            self.stream = None;
        }
        for (table, rows) in self.plan.tables.iter().zip(&self.tables) {
            if table.accessor.is_some() {
                rows.reload(table, &mut self.executor, &self.worker)?;
            }
        }
        Ok(())
    }

    /// Takes over what the servers have now, and forgets all rows: after they have loaded a
    /// checkpoint, or dropped rows. What was trained and not given to them is lost.
    ///
    /// # Errors
    /// When a server is lost.
    pub fn refresh(&mut self) -> Result<()> {
        self.changed = Changed::Records;
        self.giving.finish()?;
        self.shared.forget();
        let is_part = self.ranks.is_some();
        self.tables.iter_mut().for_each(|table| *table = Resident::new(is_part));
        self.stream = None;
        self.numbering += 1;
        self.is_ahead = false;
        let values = self.worker.values(&self.plan.dense)?;
        let names = self.plan.dense.iter().map(|piece| piece.name.as_str());
        let scope = self.executor.scope();
        scope.take_over(names.zip(values))?;
        let stats = self.worker.table_stats()?;
        self.step = stats.iter().map(|table| table.updates).max().unwrap_or(0);
        if self.step > 0 {
            for (name, beta) in self.plan.tables.iter().flat_map(|table| &table.powers) {
                scope
                    .take_over([(name.as_str(), power(*beta, self.step + 1, &scope.get(name)?))])?;
            }
        }
        Ok(())
    }
}

impl Drop for Passes {
    fn drop(&mut self) {
        // What it says does not matter any more: who ends without an error has asked before.
        drop(self.giving.finish());
        self.shared.close();
    }
}

/// `beta` to a power, computed as steps compute it: one product each, in single precision.
fn power(beta: f32, exponent: u64, like: &Tensor) -> Tensor {
    let mut power = beta;
    for _ in 1..exponent {
        let next = power * beta;
        if next == power {
            break;
        }
        power = next;
    }
    let mut tensor = like.clone();
    if let Ok(values) = tensor.as_mut_slice::<f32>() {
        values.fill(power);
    }
    tensor
}
