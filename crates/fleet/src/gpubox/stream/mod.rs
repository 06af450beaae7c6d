//! Streaming: batches are trained as they are read, and the keys of each are given rows just before.
//!
//! Three things happen at a time. A thread reads batches ahead and decides which key has which row
//! ([`rows`]), and asks the servers for the records of keys that have none. Whoever trains carries that
//! out between two steps ([`moves`]): records that leave are read, others take their rows. A third
//! thread gives the servers what has left ([`leaving`]). A batch is trained exactly as if all rows lay
//! here; where they lie, and for how long, changes nothing in what comes out.
//!
//! Of several trainers each has the rows of the keys that it owns. What they decide for a batch, they decide
//! together ([`together`]), as far ahead as each reads.

mod batches;
mod capacity;
mod leaving;
mod moves;
mod report;
mod rows;
mod together;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bireme_data::{Batch, Batches, Slot};
use bireme_engine::Executor;
use bireme_engine::device::Device;
use bireme_ps::worker::Worker;

use super::plan::PassPlan;
use super::ranks::Ranks;
use crate::environment::variables;
use crate::{Error, Result};
use batches::Streamed;
use capacity::{Need, capacities};
use leaving::{Block, Leaving};
use moves::{Moves, Put};
pub use report::StreamReport;
use rows::{Change, Rows};
use together::{Shown, Together};

/// Is told what a stream was so far.
pub type Tell = Arc<dyn Fn(&StreamReport) + Send + Sync>;

/// The stream of a GPUBox trainer, from [`super::Passes::stream`].
#[derive(Clone)]
pub struct Stream {
    shared: Arc<Shared>,
    tell: Option<(Duration, Tell)>,
}

impl Stream {
    /// Tells `tell` every so often, during training, what the stream was so far.
    #[must_use]
    pub fn telling(mut self, every: Duration, tell: Tell) -> Stream {
        self.tell = Some((every, tell));
        self
    }

    /// The same batches, whose keys have rows when they come; `is_trained` says whether they are
    /// trained, or only looked at. A batch is to be taken when the step of the one before was run, as
    /// [`bireme_data::train()`] does: its rows may have been that one's.
    ///
    /// # Errors
    /// When the slots are not those of the tables, another training has not ended yet, or one has
    /// failed.
    pub fn over(
        &self,
        batches: Box<dyn Batches>,
        slots: &[Slot],
        is_trained: bool,
    ) -> bireme_data::Result<Box<dyn Batches>> {
        let streamed = Streamed::start(&self.shared, batches, slots, is_trained)?;
        Ok(Box::new(match &self.tell {
            Some((every, tell)) => streamed.telling(*every, Arc::clone(tell)),
            None => streamed,
        }))
    }
}

/// What the threads of a stream share, and what stays from one training to the next.
pub(super) struct Shared {
    plan: Arc<PassPlan>,
    worker: Arc<Worker>,
    /// The card, if steps run on one.
    device: Option<Arc<dyn Device>>,
    /// Bytes that rows may take.
    budget: Option<usize>,
    /// The trainers that have other rows.
    together: Option<Together>,
    planned: Mutex<Planned>,
    mover: Mutex<Mover>,
    leaving: Leaving,
    /// Blocks that are on their way to the servers.
    pending: Mutex<usize>,
    arrived: Condvar,
    report: Mutex<StreamReport>,
    /// What went wrong: rows are then not where they were thought to be.
    failed: Mutex<Option<String>>,
}

/// What was decided, for all batches that were read.
struct Planned {
    tables: Vec<Rows>,
    /// With several trainers: where the steps of this one find the rows of its own samples.
    shown: Vec<Shown>,
    /// The number of the last batch.
    batch: u64,
}

/// What was carried out, for all batches that were handed to training.
struct Mover {
    /// Its scope is the trainer's.
    executor: Executor,
    tables: Vec<Moves>,
    /// Steps that were trained, by whoever trained the servers' tables.
    step: u64,
    /// Whether batches are being trained.
    is_running: bool,
}

/// What a batch needs of one table.
struct Arriving {
    change: Change,
    /// Who leaves.
    leaving: Option<Arc<Block>>,
    /// Records from the servers.
    pulled: Vec<Put>,
    /// Rows of keys that come back before the servers have their records, and where these are.
    returned: Vec<(u32, Arc<Block>, usize)>,
}

impl Shared {
    /// A stream without rows, whose steps run where those of `executor` do.
    pub(super) fn new(
        plan: &Arc<PassPlan>,
        worker: &Arc<Worker>,
        executor: Executor,
        budget: Option<usize>,
        ranks: Option<Ranks>,
    ) -> Result<Arc<Shared>> {
        let (together, budget) = match ranks {
            Some(ranks) => {
                let budget = together::least_budget(&ranks, budget)?;
                (Some(Together::new(ranks)), budget)
            }
            None => (None, budget),
        };
        let moves = plan.tables.iter().map(|table| Moves::new(table, &executor));
        let tables = moves.collect::<Result<Vec<Moves>>>()?;
        let rows = plan.tables.iter().map(|_| Rows::default()).collect();
        let shown = plan.tables.iter().map(|_| Shown::default()).collect();
        Ok(Arc::new(Shared {
            plan: Arc::clone(plan),
            worker: Arc::clone(worker),
            device: executor.device().cloned(),
            budget,
            together,
            planned: Mutex::new(Planned { tables: rows, shown, batch: 0 }),
            mover: Mutex::new(Mover { executor, tables, step: 0, is_running: false }),
            leaving: Leaving::default(),
            pending: Mutex::default(),
            arrived: Condvar::new(),
            report: Mutex::default(),
            failed: Mutex::default(),
        }))
    }

    /// The stream, after so many steps.
    pub(super) fn stream(self: &Arc<Self>, step: u64) -> Result<Stream> {
        self.check()?;
        let mut mover = lock(&self.mover);
        if !mover.is_running {
            mover.step = step;
        }
        Ok(Stream { shared: Arc::clone(self), tell: None })
    }

    /// Whether the servers lack something that was trained, be it lost.
    pub(super) fn is_ahead(&self) -> bool {
        lock(&self.failed).is_some() || lock(&self.mover).tables.iter().any(Moves::is_ahead)
    }

    /// Gives the servers all records that they do not have.
    pub(super) fn flush(&self) -> Result<()> {
        // So that nothing leaves meanwhile.
        let mut mover = lock(&self.mover);
        self.wait_for_pushes();
        self.check()?;
        let pushing = Instant::now();
        let Mover { tables, step, is_running, .. } = &mut *mover;
        for (table, moves) in self.plan.tables.iter().zip(tables) {
            moves.push(table, &self.worker, *step, *is_running)?;
        }
        lock(&self.report).push_seconds += pushing.elapsed().as_secs_f64();
        Ok(())
    }

    /// That nothing is being trained, so that all rows can be brought anew.
    pub(super) fn check_at_rest(&self) -> Result<()> {
        match lock(&self.mover).is_running {
            false => Ok(()),
            true => Err(Error::Config(
                "a delta or a base changes the counters of rows, and a stream is being trained: save it when \
                 the training has ended"
                    .to_owned(),
            )),
        }
    }

    /// What was done since this was asked last.
    pub(super) fn take_report(&self) -> StreamReport {
        let mut report = lock(&self.report);
        let bytes = report.bytes;
        std::mem::replace(&mut *report, StreamReport { bytes, ..StreamReport::default() })
    }

    /// Decides where the rows of a batch are, and asks for the records of those that have none. The ids
    /// of each table are in these tensors of the batch.
    fn prepare(&self, batch: &Batch, places: &[Vec<usize>]) -> Result<Vec<Arriving>> {
        let changes = self.decide(batch, places)?;
        let arriving = self.bring(changes);
        if let Err(error) = &arriving {
            // What was decided will not be carried out.
            self.fail(error);
        }
        arriving
    }

    /// Whether all trainers have another batch, where there are several.
    fn all_have(&self, mine: bool) -> Result<bool> {
        self.together.as_ref().map_or(Ok(mine), |together| together.all_have(mine))
    }

    fn decide(&self, batch: &Batch, places: &[Vec<usize>]) -> Result<Vec<Change>> {
        let (mut keys, ids) = self.keys_of(batch, places)?;
        let asked = match &self.together {
            Some(together) => Some(together.ask(&mut keys)?),
            None => None,
        };
        let mut planned = lock(&self.planned);
        let Planned { tables, shown, batch: number } = &mut *planned;
        *number += 1;
        let (mut named, mut needs) = (Vec::new(), Vec::new());
        for ((table, rows), keys) in self.plan.tables.iter().zip(&mut *tables).zip(keys) {
            let of_batch = rows.name(keys.into_iter(), *number);
            let new = of_batch.new.len();
            needs.push(Need {
                capacity: rows.capacity(),
                held: rows.held(),
                named: of_batch.known.len() + new,
                new,
                bytes: table.bytes_of_row(),
            });
            named.push(of_batch);
        }
        let own = needs.clone();
        let agreed = match (&self.together, &asked) {
            (Some(together), Some(asked)) => together.agree(&mut needs, asked)?,
            _ => Vec::new(),
        };
        let sizes = capacities(&needs, self.budget).map_err(|alone| self.too_large(alone))?;
        let placed = tables.iter_mut().zip(named).zip(sizes);
        let mut changes: Vec<Change> =
            placed.map(|((rows, named), size)| rows.place(named, *number, size)).collect();
        if let (Some(together), Some(asked)) = (&self.together, &asked) {
            for (at, change) in changes.iter_mut().enumerate() {
                together.show(&asked[at], &tables[at], agreed[at], &mut shown[at], change)?;
            }
        }
        let mut report = lock(&self.report);
        report.ids += ids;
        report.unique += own.iter().map(|need| need.named as u64).sum::<u64>();
        report.new += own.iter().map(|need| need.new as u64).sum::<u64>();
        report.evicted += changes.iter().map(|change| change.leaving.len() as u64).sum::<u64>();
        Ok(changes)
    }

    /// The keys of each table in a batch, and how many ids it has.
    fn keys_of(&self, batch: &Batch, places: &[Vec<usize>]) -> Result<(Vec<Vec<u64>>, u64)> {
        let (tensors, mut all, mut ids) = (batch.tensors(), Vec::new(), 0);
        for (table, places) in self.plan.tables.iter().zip(places) {
            let padding = table.reference.padding;
            let mut keys = Vec::new();
            for at in places {
                let slot = tensors[*at].as_slice::<i64>()?;
                ids += slot.len() as u64;
                let own = slot.iter().filter(|id| Some(**id) != padding);
                keys.extend(own.map(|id| *id as u64));
            }
            all.push(keys);
        }
        Ok((all, ids))
    }

    fn too_large(&self, alone: usize) -> Error {
        Error::Config(format!(
            "the rows of a single batch take {alone} bytes, and {} may be used: use smaller batches, or \
             give them more memory (`{}`)",
            self.budget.unwrap_or(0),
            variables::GPUBOX_MEMORY.name
        ))
    }

    /// Finds the records of keys that get rows: here, or at the servers.
    fn bring(&self, changes: Vec<Change>) -> Result<Vec<Arriving>> {
        let mut all = Vec::with_capacity(changes.len());
        for (at, (change, table)) in changes.into_iter().zip(&self.plan.tables).enumerate() {
            let (mut returned, mut rows, mut keys) = (Vec::new(), Vec::new(), Vec::new());
            let found = self.leaving.find(at, &change.entering_keys);
            let entering = change.entering.iter().zip(&change.entering_keys);
            for ((row, key), found) in entering.zip(found) {
                match found {
                    Some((block, place)) => returned.push((*row, block, place)),
                    None => {
                        rows.push(*row);
                        keys.push(*key);
                    }
                }
            }
            let leaving = (!change.leaving.is_empty()).then(|| {
                let block = Block::new(at, change.leaving_keys.clone());
                self.leaving.add(&block);
                block
            });
            let pulling = Instant::now();
            let width = table.record_width();
            let mut records = vec![0.0; keys.len() * width];
            if !keys.is_empty() {
                self.worker.pull_records(&table.reference, width, &keys, &mut records)?;
            }
            let pulled = Put::all(table, &rows, &records, self.device.as_deref())?;
            lock(&self.report).pull_seconds += pulling.elapsed().as_secs_f64();
            all.push(Arriving { change, leaving, pulled, returned });
        }
        Ok(all)
    }

    /// Carries out what a batch needs; what has left is to be pushed. A batch that `is_handed_over` is
    /// trained next, unless it is only looked at.
    fn carry_out(
        &self,
        arriving: Vec<Arriving>,
        is_handed_over: bool,
        is_trained: bool,
    ) -> Result<Vec<Arc<Block>>> {
        let moving = Instant::now();
        let mut mover = lock(&self.mover);
        let Mover { executor, tables, step, .. } = &mut *mover;
        let mut left = Vec::new();
        let mut bytes = 0;
        for ((table, moves), arriving) in self.plan.tables.iter().zip(&mut *tables).zip(arriving) {
            let Arriving { change, leaving, pulled, returned } = arriving;
            let block = leaving.as_deref().map(|block| (block, *step));
            moves.carry_out(table, executor.scope(), &change, block)?;
            let returned = moves::returned(table, &returned)?;
            pulled.iter().chain(&returned).try_for_each(|put| moves.put(put))?;
            if is_handed_over {
                moves.hand_over(change.named, is_trained);
            }
            left.extend(leaving);
            bytes += moves.bytes(table);
        }
        *step += u64::from(is_handed_over && is_trained);
        let mut report = lock(&self.report);
        report.batches += u64::from(is_handed_over);
        report.bytes = bytes;
        report.move_seconds += moving.elapsed().as_secs_f64();
        Ok(left)
    }

    /// Gives the servers a block; in the order in which they left.
    fn push(&self, block: &Arc<Block>) {
        let pushing = Instant::now();
        if self.check().is_ok() {
            match block.push(&self.plan.tables[block.table], &self.worker) {
                Ok(()) => self.leaving.arrived(block),
                Err(error) => self.fail(&error),
            }
        }
        lock(&self.report).push_seconds += pushing.elapsed().as_secs_f64();
        let mut pending = lock(&self.pending);
        *pending = pending.saturating_sub(1);
        drop(pending);
        self.arrived.notify_all();
    }

    fn wait_for_pushes(&self) {
        let pending = self.arrived.wait_while(lock(&self.pending), |pending| *pending > 0);
        drop(pending.unwrap_or_else(PoisonError::into_inner));
    }

    fn fail(&self, error: &Error) {
        lock(&self.failed).get_or_insert_with(|| error.to_string());
    }

    /// That nothing went wrong before.
    fn check(&self) -> Result<()> {
        match &*lock(&self.failed) {
            None => Ok(()),
            Some(problem) => Err(Error::Config(format!(
                "{problem}; rows of the stream are lost: load the last save, and train on from there"
            ))),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error of the job, as whoever reads batches knows it.
fn to_data(error: Error) -> bireme_data::Error {
    match error {
        Error::Engine(error) => error.into(),
        Error::Config(problem) => bireme_data::Error::Settings(problem),
        Error::Ps(bireme_ps::Error::Interrupted) => bireme_data::Error::Interrupted,
        other => bireme_engine::Error::remote(other).into(),
    }
}
