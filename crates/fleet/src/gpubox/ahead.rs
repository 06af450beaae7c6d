//! Records of the next pass, brought while this one is trained.
//!
//! What lies on the trainer does not change while a pass is trained, but for its values; so the keys
//! of the next pass that have no row yet are known, and nobody else changes their records.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bireme_comm::Interrupt;
use bireme_engine::ops::PassIndex;
use bireme_ps::worker::Worker;

use super::plan::PassPlan;
use super::ranks::Ranks;
use crate::Result;

/// Between two looks at whether the trainer has ended.
const TICK: Duration = Duration::from_millis(100);

/// Makes the next pass ready while another is trained.
#[derive(Clone)]
pub struct Ahead(pub(super) Arc<Shared>);

impl Ahead {
    /// Brings the records of keys that have no row, those of each table in order and without repeats,
    /// for a pass that begins after the one that is trained now. Waits until one is. What goes wrong
    /// here goes wrong again, and is told, when the pass begins. Ranks that hold rows together make this
    /// call for the same passes.
    pub fn prepare(&self, keys: Vec<Vec<u64>>) {
        Interrupt::ignore_on_this_thread();
        let shared = &self.0;
        // Before anything that waits for training: a rank that begins its pass must not have to wait for
        // another's.
        let Ok(Some(own)) = shared.own(&keys) else { return };
        let mut state = shared.lock();
        while !state.is_training && !state.is_closed {
            (state, _) =
                shared.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return;
        }
        let (generation, indexes) = (state.generation, state.indexes.clone());
        (state.preparing, state.prepared) = (true, None);
        drop(state);
        let tables = own.iter().zip(&indexes).enumerate();
        let records = tables.map(|(at, (keys, index))| shared.pull(at, index, keys));
        let records = records.collect::<Result<Vec<Records>>>();
        // The trainer changes them when it knows that this is over.
        drop(indexes);
        let mut state = shared.lock();
        state.preparing = false;
        if let (Ok(records), true) = (records, state.generation == generation) {
            state.prepared = Some((own, records));
        }
        shared.changed.notify_all();
    }
}

/// What a pass needs of one table.
pub(super) struct Records {
    /// Keys that had no row.
    pub(super) keys: Vec<u64>,
    /// Their records.
    pub(super) values: Vec<f32>,
    /// The rows of all other keys.
    pub(super) known: Vec<u32>,
}

/// What a trainer and whoever works ahead of it share.
pub(super) struct Shared {
    plan: Arc<PassPlan>,
    worker: Arc<Worker>,
    /// The other ranks, by a group that nobody else calls.
    ranks: Option<Ranks>,
    /// Bytes that rows may take: a pass that needs more is cut, and not made ready.
    budget: Option<usize>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The keys of each table whose rows lie here, with the records of those that are new.
type Prepared = (Vec<Vec<u64>>, Vec<Records>);

#[derive(Default)]
struct State {
    /// Counts changes of what has rows.
    generation: u64,
    /// Rows of each table, as they are during this pass.
    indexes: Vec<Arc<PassIndex>>,
    is_training: bool,
    is_closed: bool,
    /// Whether records are being brought.
    preparing: bool,
    /// What was brought.
    prepared: Option<Prepared>,
}

impl Shared {
    pub(super) fn new(
        plan: Arc<PassPlan>,
        worker: Arc<Worker>,
        ranks: Option<Ranks>,
        budget: Option<usize>,
    ) -> Shared {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Shared { plan, worker, ranks, budget, state, changed }
    }

    /// Which rows this trainer has in a pass whose samples have these keys; `None` when the pass will be cut
    /// in parts.
    fn own(&self, keys: &[Vec<u64>]) -> Result<Option<Vec<Vec<u64>>>> {
        let rows = keys.iter().zip(self.plan.bytes_of_rows());
        let needed: usize = rows.map(|(keys, bytes)| keys.len() * bytes).sum();
        let mut fits = self.budget.is_none_or(|budget| needed <= budget);
        if let Some(ranks) = &self.ranks {
            fits = ranks.least(u64::from(fits))? == 1;
        }
        if !fits {
            return Ok(None);
        }
        let mut own = Vec::new();
        for (table, keys) in self.plan.tables.iter().zip(keys) {
            let keys = table.without_padding(keys);
            own.push(match &self.ranks {
                Some(ranks) => ranks.ask(&keys)?.own(),
                None => keys,
            });
        }
        Ok(Some(own))
    }

    /// The records of those of `keys` that `index` does not have, of table `at`.
    pub(super) fn pull(&self, at: usize, index: &PassIndex, keys: &[u64]) -> Result<Records> {
        let table = &self.plan.tables[at];
        let (mut new, mut known) = (Vec::new(), Vec::new());
        for key in keys {
            match index.row(*key) {
                Some(row) => known.push(row as u32),
                None => new.push(*key),
            }
        }
        let mut values = vec![0.0; new.len() * table.record_width()];
        self.worker.pull_records(&table.reference, table.record_width(), &new, &mut values)?;
        Ok(Records { keys: new, values, known })
    }

    /// A pass is about to begin: waits for what is under way.
    pub(super) fn settle(&self) {
        let mut state = self.lock();
        state.is_training = false;
        // So that they are the trainer's alone, who changes them.
        state.indexes.clear();
        while state.preparing {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What was brought for a pass with these keys of each table, if it was.
    pub(super) fn take(&self, own: &[Vec<u64>]) -> Option<Vec<Records>> {
        let prepared = self.lock().prepared.take();
        prepared.filter(|(known, _)| known == own).map(|(_, records)| records)
    }

    /// A pass is trained now.
    pub(super) fn begin(&self, indexes: Vec<Arc<PassIndex>>) {
        let mut state = self.lock();
        state.generation += 1;
        (state.indexes, state.is_training, state.prepared) = (indexes, true, None);
        self.changed.notify_all();
    }

    /// No pass is trained at present.
    pub(super) fn pause(&self) {
        self.lock().is_training = false;
    }

    /// What was brought, or is under way, is not as the servers have it any more.
    pub(super) fn forget_prepared(&self) {
        let mut state = self.lock();
        state.generation += 1;
        state.prepared = None;
    }

    /// What was brought no longer counts.
    pub(super) fn forget(&self) {
        let mut state = self.lock();
        state.generation += 1;
        (state.is_training, state.prepared) = (false, None);
    }

    /// Nobody trains any more.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
