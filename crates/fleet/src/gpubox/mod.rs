//! GPUBox: a trainer that holds the rows of a pass itself, as variables of its scope.
//!
//! A pass makes the job a local one. Its keys are given rows once; the records of these rows (weights
//! and optimizer state) come from the servers' tables into ordinary variables, and the trainer's
//! program, which `transpiler/src/gpubox.rs` writes, trains them on the card as it trains any
//! parameter. Rows stay from one pass to the next, so that only keys that are new are brought; what
//! was trained goes back when somebody asks for what the servers have ([`Passes::flush`]): a save, a
//! shrink, the end. While a pass trains, the next one is made ready by an [`Ahead`].

mod ahead;
mod plan;
mod report;
mod resident;

use std::sync::Arc;
use std::time::Instant;

use bireme_engine::device::Device;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Scope};
use bireme_ir::Program;
use bireme_ps::worker::Worker;

use crate::Result;
pub use ahead::Ahead;
use ahead::Shared;
pub use plan::{PassPlan, PassTable};
pub use report::PassReport;
use resident::Resident;

/// Of a card's free memory, the part that rows of passes may take: a step needs memory, too.
const SHARE_OF_CARD: f64 = 0.7;

/// The passes of a trainer.
pub struct Passes {
    plan: Arc<PassPlan>,
    worker: Arc<Worker>,
    /// Moves rows; its scope is the trainer's.
    executor: Executor,
    tables: Vec<Resident>,
    shared: Arc<Shared>,
    /// Bytes that rows may take.
    budget: Option<usize>,
    /// Steps that were trained, by whoever trained the servers' tables.
    step: u64,
    /// Whether something was trained that the servers do not have.
    is_ahead: bool,
    report: PassReport,
    since: Instant,
}

impl Passes {
    /// The passes of `program` on `scope`; `None` for a program that is no GPUBox trainer's. Takes the
    /// servers' parameters over. `budget` is how many bytes rows may take; most of the card's memory
    /// where nobody says.
    ///
    /// # Errors
    /// When the program's descriptions do not fit, or a server is lost.
    pub fn open(
        program: &Program,
        worker: &Arc<Worker>,
        scope: &Scope,
        device: Option<&Arc<dyn Device>>,
        budget: Option<usize>,
    ) -> Result<Option<Passes>> {
        let Some(plan) = PassPlan::of(program)? else { return Ok(None) };
        let plan = Arc::new(plan);
        let budget = match (budget, device) {
            (None, Some(device)) => Some((device.memory()?.free as f64 * SHARE_OF_CARD) as usize),
            (given, _) => given,
        };
        let executor = match device {
            Some(device) => Executor::on(Arc::clone(device)),
            None => Executor::new(Place::Cpu)?,
        };
        let tables = plan.tables.iter().map(|_| Resident::default()).collect();
        let shared = Arc::new(Shared::new(Arc::clone(&plan), Arc::clone(worker)));
        let mut passes = Passes {
            plan,
            worker: Arc::clone(worker),
            executor: executor.with_scope(scope.clone()),
            tables,
            shared,
            budget,
            step: 0,
            is_ahead: false,
            report: PassReport::default(),
            since: Instant::now(),
        };
        passes.refresh()?;
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

    /// Makes passes ready while another is trained; for any thread.
    pub fn ahead(&self) -> Ahead {
        Ahead(Arc::clone(&self.shared))
    }

    /// Begins a pass: afterwards the trainer has rows for `keys`, those of each table in order and
    /// without repeats. `ids` is how often they were named, for the report.
    ///
    /// # Errors
    /// When a server is lost, or the card has no memory.
    pub fn begin(&mut self, keys: &[Vec<u64>], ids: u64) -> Result<()> {
        let waiting = Instant::now();
        let prepared = self.shared.take(keys);
        self.report = PassReport { pass: self.report.pass + 1, ids, ..PassReport::default() };
        self.report.wait_seconds = waiting.elapsed().as_secs_f64();
        let mut prepared = prepared.map(Vec::into_iter);
        for (at, keys) in keys.iter().enumerate() {
            let keys = self.plan.tables[at].without_padding(keys);
            let pulling = Instant::now();
            let new = match prepared.as_mut().and_then(Iterator::next) {
                Some(new) => new,
                None => self.shared.pull(at, self.tables[at].index(), &keys)?,
            };
            self.report.pull_seconds += pulling.elapsed().as_secs_f64();
            self.report.unique += keys.len() as u64;
            self.report.new += new.keys.len() as u64;
            self.bring(at, &keys, &new)?;
        }
        self.report.bytes =
            self.plan.tables.iter().zip(&self.tables).map(|(table, rows)| rows.bytes(table)).sum();
        let indexes = self.tables.iter().map(|table| Arc::clone(table.index())).collect();
        self.shared.begin(indexes);
        self.since = Instant::now();
        Ok(())
    }

    /// Gives the new keys of table `at` their rows: beside those that are there, if there is room.
    fn bring(&mut self, at: usize, keys: &[u64], new: &ahead::Records) -> Result<()> {
        let moving = Instant::now();
        let plan = Arc::clone(&self.plan);
        let (table, share) = (&plan.tables[at], self.share(at));
        if !self.tables[at].has_room(new.keys.len()) {
            if self.tables[at].loses_rows(table, keys, new.keys.len(), share) {
                // What leaves must not be lost.
                self.flush()?;
            }
            self.tables[at].rebuild(table, self.executor.scope(), keys, new, share)?;
        } else {
            self.tables[at].put(table, &mut self.executor, new)?;
        }
        self.report.move_seconds += moving.elapsed().as_secs_f64();
        Ok(())
    }

    /// Bytes that the rows of table `at` may take: its part of all, by the sizes of rows.
    fn share(&self, at: usize) -> Option<usize> {
        let all: usize = self.plan.tables.iter().map(PassTable::bytes_of_row).sum();
        let own = self.plan.tables[at].bytes_of_row();
        self.budget.map(|budget| (budget as f64 * own as f64 / all.max(1) as f64) as usize)
    }

    /// The pass is over; its rows stay. Whoever makes the next one ready waits until that begins.
    pub fn end(&mut self) {
        self.shared.pause();
    }

    /// So many steps of this pass were trained.
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
        if !self.is_ahead {
            return Ok(());
        }
        let pushing = Instant::now();
        for (table, rows) in self.plan.tables.iter().zip(&mut self.tables) {
            rows.push(table, self.executor.scope(), &self.worker, self.step)?;
        }
        let scope = self.executor.scope();
        let values = self.plan.dense.iter().map(|piece| scope.get(&piece.name));
        let values = values.collect::<bireme_engine::Result<Vec<Tensor>>>()?;
        self.worker.set(&self.plan.dense, &values.iter().collect::<Vec<&Tensor>>())?;
        self.is_ahead = false;
        let took = pushing.elapsed();
        self.report.push_seconds += took.as_secs_f64();
        // It is no time of training.
        self.since += took;
        Ok(())
    }

    /// Takes over what the servers have now, and forgets all rows: after they have loaded a
    /// checkpoint, or dropped rows. What was trained and not given to them is lost.
    ///
    /// # Errors
    /// When a server is lost.
    pub fn refresh(&mut self) -> Result<()> {
        self.shared.forget();
        self.tables.iter_mut().for_each(|table| *table = Resident::default());
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
