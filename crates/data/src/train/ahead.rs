//! Rows of the next batch, pulled from the servers while a step runs.
//!
//! A step on a card waits for its rows, and the card waits for the step. Where a mode lets rows lack the gradients of
//! the step before ([`Remote::pull_ahead`]), a thread pulls those of the next batch meanwhile, and the step that asks
//! for them finds them here. What went wrong is left to the step's own pull to find out and to say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bireme_engine::ir::Program;
use bireme_engine::remote::{GeoParam, Lookup, Piece, Remote, Sending, TableRef, lookups};
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Result as EngineResult, Value};

use crate::{Error, Result};

/// Pulls ahead for one training thread.
pub(super) struct Ahead {
    lookups: Vec<Lookup>,
    /// Where the ids of each lookup are among the feeds.
    at: Vec<Vec<usize>>,
    shared: Arc<Shared>,
    /// What to pull; gone when the thread is to end.
    wanted: Option<SyncSender<Vec<Rows>>>,
    puller: Option<JoinHandle<()>>,
}

/// What the training thread, the step and the puller share.
struct Shared {
    remote: Arc<dyn Remote>,
    pulled: Mutex<Pulled>,
    /// Told when something was pulled.
    news: Condvar,
    /// Whether the servers' mode lets rows be pulled ahead, as far as is known.
    is_allowed: AtomicBool,
    /// Memory of rows that were used.
    free: Mutex<Vec<Rows>>,
}

#[derive(Default)]
struct Pulled {
    /// Rows that are here and were not asked for yet.
    ready: Vec<Rows>,
    /// Lookups whose rows are on their way.
    pending: usize,
}

/// Rows of one lookup.
#[derive(Default)]
struct Rows {
    /// The lookup, by its position.
    lookup: usize,
    table: String,
    ids: Vec<Vec<i64>>,
    values: Vec<Vec<f32>>,
}

impl Ahead {
    /// Pulls ahead for `program`; none where it looks nothing up that is fed as it is.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn of(
        program: &Program,
        feeds: &[&str],
        remote: &Arc<dyn Remote>,
    ) -> Result<Option<Ahead>> {
        let lookups = lookups(program, feeds);
        if lookups.is_empty() {
            return Ok(None);
        }
        let place = |name: &String| feeds.iter().position(|feed| feed == name);
        let at = lookups.iter().map(|lookup| lookup.ids.iter().filter_map(place).collect());
        let at = at.collect();
        let shared = Arc::new(Shared {
            remote: Arc::clone(remote),
            pulled: Mutex::default(),
            news: Condvar::new(),
            is_allowed: AtomicBool::new(true),
            free: Mutex::default(),
        });
        let (wanted, asked) = sync_channel(1);
        let (tables, own) = (lookups.clone(), Arc::clone(&shared));
        let puller = std::thread::Builder::new().name("pull-ahead".to_owned());
        let puller = puller.spawn(move || own.pull_all(&tables, &asked)).map_err(|error| {
            Error::Settings(format!("cannot start a thread that pulls rows ahead: {error}"))
        })?;
        Ok(Some(Ahead { lookups, at, shared, wanted: Some(wanted), puller: Some(puller) }))
    }

    /// The servers, as the step is to see them.
    pub(super) fn remote(&self) -> Arc<dyn Remote> {
        Arc::clone(&self.shared) as Arc<dyn Remote>
    }

    /// Whether there is any use in it.
    pub(super) fn is_allowed(&self) -> bool {
        self.shared.is_allowed.load(Ordering::Relaxed)
    }

    /// Begins to pull the rows of a batch.
    ///
    /// # Errors
    /// When ids cannot be read.
    pub(super) fn pull(&mut self, feeds: &[&Tensor]) -> Result<()> {
        let mut all = Vec::with_capacity(self.lookups.len());
        for (number, (lookup, at)) in self.lookups.iter().zip(&self.at).enumerate() {
            let mut rows = lock(&self.shared.free).pop().unwrap_or_default();
            rows.lookup = number;
            rows.table.clone_from(&lookup.table.name);
            rows.ids.resize_with(at.len(), Vec::new);
            rows.values.resize_with(at.len(), Vec::new);
            for ((feed, ids), values) in at.iter().zip(&mut rows.ids).zip(&mut rows.values) {
                read(feeds[*feed], ids)?;
                values.resize(ids.len() * lookup.table.width, 0.0);
            }
            all.push(rows);
        }
        let Some(wanted) = &self.wanted else { return Ok(()) };
        let count = all.len();
        lock(&self.shared.pulled).pending += count;
        // The thread is there as long as this is, unless it panicked.
        if wanted.send(all).is_err() {
            lock(&self.shared.pulled).pending -= count;
        }
        Ok(())
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(puller) = self.puller.take() {
            puller.join().ok();
        }
    }
}

/// Ids as 64-bit numbers.
fn read(from: &Tensor, ids: &mut Vec<i64>) -> Result<()> {
    ids.clear();
    match from.dtype() {
        DType::I32 => ids.extend(from.as_slice::<i32>()?.iter().map(|id| i64::from(*id))),
        _ => ids.extend_from_slice(from.as_slice::<i64>()?),
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn pull_all(&self, lookups: &[Lookup], asked: &Receiver<Vec<Rows>>) {
        while let Ok(all) = asked.recv() {
            for mut rows in all {
                let table = &lookups[rows.lookup].table;
                let ids: Vec<&[i64]> = rows.ids.iter().map(Vec::as_slice).collect();
                let mut outs: Vec<&mut [f32]> =
                    rows.values.iter_mut().map(Vec::as_mut_slice).collect();
                let done = self.remote.pull_ahead(table, &ids, &mut outs);
                let mut pulled = lock(&self.pulled);
                match done {
                    Ok(true) => pulled.ready.push(rows),
                    Ok(false) => self.is_allowed.store(false, Ordering::Relaxed),
                    Err(_) => {}
                }
                pulled.pending -= 1;
                self.news.notify_all();
            }
        }
    }

    /// Takes rows that are here or on their way, if they are those.
    fn take(&self, table: &TableRef, ids: &[&[i64]]) -> Option<Rows> {
        let is_on_its_way = |pulled: &mut Pulled| {
            pulled.pending > 0 && !pulled.ready.iter().any(|rows| rows.table == table.name)
        };
        let pulled = self.news.wait_while(lock(&self.pulled), is_on_its_way);
        let ready = &mut pulled.unwrap_or_else(PoisonError::into_inner).ready;
        let is_it = |rows: &Rows| {
            rows.table == table.name && rows.ids.iter().map(Vec::as_slice).eq(ids.iter().copied())
        };
        let found = ready.iter().position(is_it).map(|at| ready.swap_remove(at));
        // What was pulled for a step that asked for something else is of no use any more.
        let unused = ready.extract_if(.., |rows| rows.table == table.name);
        lock(&self.free).extend(unused);
        found
    }
}

impl Remote for Shared {
    fn send(&self, how: &Sending, values: &[&Value]) -> EngineResult<()> {
        self.remote.send(how, values)
    }

    fn send_barrier(&self, endpoints: &[String]) -> EngineResult<()> {
        self.remote.send_barrier(endpoints)
    }

    fn recv(&self, pieces: &[Piece], outs: &mut [&mut Tensor]) -> EngineResult<()> {
        self.remote.recv(pieces, outs)
    }

    fn fetch_barrier(&self, endpoints: &[String]) -> EngineResult<()> {
        self.remote.fetch_barrier(endpoints)
    }

    fn pull_rows(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        outs: &mut [&mut [f32]],
    ) -> EngineResult<()> {
        match self.take(table, ids) {
            Some(rows) => {
                for (values, out) in rows.values.iter().zip(outs) {
                    out.copy_from_slice(values);
                }
                lock(&self.free).push(rows);
                Ok(())
            }
            None => self.remote.pull_rows(table, ids, outs),
        }
    }

    fn push_rows(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        grads: &[&[f32]],
        counts: Option<&[[f32; 2]]>,
    ) -> EngineResult<()> {
        self.remote.push_rows(table, ids, grads, counts)
    }

    fn exchange(&self, params: &mut [GeoParam<'_>]) -> EngineResult<()> {
        self.remote.exchange(params)
    }

    fn whoami(&self) -> String {
        self.remote.whoami()
    }
}

#[cfg(test)]
mod tests {
    use bireme_engine::ir::{Attr, Op, Var};

    use super::*;

    /// Row `id` is `id`; counts pulls of both kinds.
    struct Fake {
        allows: bool,
        pulls: Mutex<[usize; 2]>,
    }

    fn fill(ids: &[&[i64]], outs: &mut [&mut [f32]]) {
        for (ids, out) in ids.iter().zip(outs) {
            for (id, row) in ids.iter().zip(out.chunks_mut(2)) {
                row.fill(*id as f32);
            }
        }
    }

    impl Remote for Fake {
        fn send(&self, _: &Sending, _: &[&Value]) -> EngineResult<()> {
            Ok(())
        }

        fn send_barrier(&self, _: &[String]) -> EngineResult<()> {
            Ok(())
        }

        fn recv(&self, _: &[Piece], _: &mut [&mut Tensor]) -> EngineResult<()> {
            Ok(())
        }

        fn fetch_barrier(&self, _: &[String]) -> EngineResult<()> {
            Ok(())
        }

        fn pull_rows(
            &self,
            _: &TableRef,
            ids: &[&[i64]],
            outs: &mut [&mut [f32]],
        ) -> EngineResult<()> {
            lock(&self.pulls)[0] += 1;
            fill(ids, outs);
            Ok(())
        }

        fn pull_ahead(
            &self,
            _: &TableRef,
            ids: &[&[i64]],
            outs: &mut [&mut [f32]],
        ) -> EngineResult<bool> {
            lock(&self.pulls)[1] += 1;
            fill(ids, outs);
            Ok(self.allows)
        }

        fn push_rows(
            &self,
            _: &TableRef,
            _: &[&[i64]],
            _: &[&[f32]],
            _: Option<&[[f32; 2]]>,
        ) -> EngineResult<()> {
            Ok(())
        }

        fn exchange(&self, _: &mut [GeoParam<'_>]) -> EngineResult<()> {
            Ok(())
        }

        fn whoami(&self) -> String {
            "nobody".to_owned()
        }
    }

    /// A lookup of two slots in a table of two columns.
    fn program() -> Program {
        let mut program = Program::new();
        let global = program.global_mut();
        let mut weights = Var::tensor("table", DType::F32, [100, 2]);
        weights.persistable = true;
        global.add_var(weights);
        let op = Op::new("distributed_lookup_table").input("Ids", ["a", "b"]).input("W", ["table"]);
        let op = op.output("Outputs", ["x", "y"]).attr("table_names", vec!["table".to_owned()]);
        let endpoints = Attr::Strings(vec!["127.0.0.1:1".to_owned()]);
        global.ops.push(op.attr("endpoints", endpoints));
        program
    }

    fn ahead(allows: bool) -> (Ahead, Arc<Fake>) {
        let fake = Arc::new(Fake { allows, pulls: Mutex::default() });
        let remote = Arc::clone(&fake) as Arc<dyn Remote>;
        let made = Ahead::of(&program(), &["label", "a", "b"], &remote).unwrap();
        (made.unwrap(), fake)
    }

    fn ids(list: &[i64]) -> Tensor {
        Tensor::from_slice([list.len(), 1], list).unwrap()
    }

    fn pull(ahead: &Ahead, a: &[i64], b: &[i64]) -> Vec<f32> {
        let (mut x, mut y) = (vec![0.0; 2 * a.len()], vec![0.0; 2 * b.len()]);
        let table = &ahead.lookups[0].table;
        ahead.remote().pull_rows(table, &[a, b], &mut [&mut x, &mut y]).unwrap();
        x.extend(y);
        x
    }

    #[test]
    fn a_step_finds_the_rows_that_were_pulled_for_it() {
        let (mut ahead, fake) = ahead(true);
        let label = ids(&[0, 1]);
        for step in 0..3 {
            let (a, b) = ([step, 7], [8, step]);
            ahead.pull(&[&label, &ids(&a), &ids(&b)]).unwrap();
            let step = step as f32;
            assert_eq!(pull(&ahead, &a, &b), [step, step, 7.0, 7.0, 8.0, 8.0, step, step]);
        }
        assert_eq!(*lock(&fake.pulls), [0, 3]);
        // Others are pulled as they are asked for, and what was pulled for nobody is forgotten.
        ahead.pull(&[&label, &ids(&[1]), &ids(&[2])]).unwrap();
        assert_eq!(pull(&ahead, &[3], &[4]), [3.0, 3.0, 4.0, 4.0]);
        assert_eq!(*lock(&fake.pulls), [1, 4]);
        assert!(lock(&ahead.shared.pulled).ready.is_empty());
    }

    #[test]
    fn where_rows_must_be_new_nothing_is_pulled_ahead_twice() {
        let (mut ahead, fake) = ahead(false);
        assert!(ahead.is_allowed());
        ahead.pull(&[&ids(&[0]), &ids(&[1]), &ids(&[2])]).unwrap();
        assert_eq!(pull(&ahead, &[1], &[2]), [1.0, 1.0, 2.0, 2.0]);
        assert!(!ahead.is_allowed());
        assert_eq!(*lock(&fake.pulls), [1, 1]);
    }

    #[test]
    fn ids_that_a_step_computes_cannot_be_known() {
        let fake = Arc::new(Fake { allows: true, pulls: Mutex::default() }) as Arc<dyn Remote>;
        assert!(Ahead::of(&program(), &["a"], &fake).unwrap().is_none());
    }
}
