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
use crate::Result;

/// Between two looks at whether the trainer has ended.
const TICK: Duration = Duration::from_millis(100);

/// Makes the next pass ready while another is trained.
#[derive(Clone)]
pub struct Ahead(pub(super) Arc<Shared>);

impl Ahead {
    /// Brings the records of keys that have no row, those of each table in order and without repeats,
    /// for a pass that begins after the one that is trained now. Waits until one is. What goes wrong
    /// here goes wrong again, and is told, when the pass begins.
    pub fn prepare(&self, keys: Vec<Vec<u64>>) {
        Interrupt::ignore_on_this_thread();
        let shared = &self.0;
        let mut state = shared.lock();
        while !state.is_training && !state.is_closed {
            (state, _) =
                shared.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return;
        }
        let (generation, indexes) = (state.generation, state.indexes.clone());
        (state.preparing, state.prepared) = (Some(keys.clone()), None);
        drop(state);
        let tables = keys.iter().zip(&indexes).enumerate();
        let records = tables
            .map(|(at, (keys, index))| {
                shared.pull(at, index, &shared.plan.tables[at].without_padding(keys))
            })
            .collect::<Result<Vec<Records>>>();
        let mut state = shared.lock();
        state.preparing = None;
        if let (Ok(records), true) = (records, state.generation == generation) {
            state.prepared = Some((keys, records));
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
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Counts changes of what has rows.
    generation: u64,
    /// Rows of each table, as they are during this pass.
    indexes: Vec<Arc<PassIndex>>,
    is_training: bool,
    is_closed: bool,
    /// The keys that are being brought.
    preparing: Option<Vec<Vec<u64>>>,
    /// Those that were, with their records.
    prepared: Option<(Vec<Vec<u64>>, Vec<Records>)>,
}

impl Shared {
    pub(super) fn new(plan: Arc<PassPlan>, worker: Arc<Worker>) -> Shared {
        Shared { plan, worker, state: Mutex::default(), changed: Condvar::new() }
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

    /// What was brought for a pass with these keys; waits for it if it is under way.
    pub(super) fn take(&self, keys: &[Vec<u64>]) -> Option<Vec<Records>> {
        let mut state = self.lock();
        state.is_training = false;
        // So that they are the trainer's alone, who changes them.
        state.indexes.clear();
        while state.preparing.as_deref() == Some(keys) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.prepared.take().filter(|(known, _)| known == keys).map(|(_, records)| records)
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
