//! Rows of the next batch, pulled from the servers beside the step that runs.
//!
//! A step waits for its rows. Where a mode lets rows lack the gradients of the step before
//! ([`Remote::pull_ahead`]), a thread pulls those of the next batch while a step computes; elsewhere as soon as the
//! step's gradients are with the servers, while its dense parameters still come. The step that asks for them finds
//! them here. For a card they are in page-locked memory, which takes the place of the step's own, so that the card
//! copies them from where they arrived. What went wrong is left to the step's own pull to find out and to say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use bireme_engine::device::{Device, locked_room};
use bireme_engine::ir::Program;
use bireme_engine::remote::{GeoParam, Lookup, Piece, Remote, Sending, TableRef, lookups};
use bireme_engine::tensor::{Dims, Tensor};
use bireme_engine::{DType, Result as EngineResult, Value};

use crate::{Error, Result};

/// Pulls ahead for one training thread.
pub(super) struct Ahead {
    lookups: Vec<Lookup>,
    /// Where the ids of each lookup are among the feeds.
    at: Vec<Vec<usize>>,
    /// The card that the rows go to.
    device: Option<Arc<dyn Device>>,
    shared: Arc<Shared>,
    /// What to pull; gone when the thread is to end.
    wanted: Option<SyncSender<Vec<Rows>>>,
    puller: Option<JoinHandle<()>>,
}

/// What the training thread, the step and the puller share.
struct Shared {
    remote: Arc<dyn Remote>,
    pulled: Mutex<Pulled>,
    /// Told when something was pulled, and when something may be.
    news: Condvar,
    /// Whether rows can be pulled ahead at all, as far as is known.
    is_allowed: AtomicBool,
    /// Whether that must wait until the step before is over, as far as is known.
    after_step: AtomicBool,
    end: End,
    /// Memory of rows that were used.
    free: Mutex<Vec<Rows>>,
}

/// When a step has handed over all that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// After its barrier.
    Barrier,
    /// After so many sends and pushes.
    Sends(usize),
}

/// Batches are counted from 0, the first, whose rows are never pulled ahead.
#[derive(Default)]
struct Pulled {
    /// Rows that are here and were not asked for yet.
    ready: Vec<Rows>,
    /// Lookups whose rows are on their way: their batches and tables.
    pending: Vec<(u64, String)>,
    /// The batch of the step that runs, or is the next to run.
    running: u64,
    /// What this step has sent so far.
    sends: usize,
    /// Rows up to those of this batch may be pulled where they must wait for the step before.
    up_to: u64,
    /// Nobody wants rows any more.
    closing: bool,
}

/// Rows of one lookup.
#[derive(Default)]
struct Rows {
    /// The batch.
    batch: u64,
    /// The lookup, by its position.
    lookup: usize,
    table: String,
    ids: Vec<Vec<i64>>,
    values: Vec<Tensor>,
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
        device: Option<&Arc<dyn Device>>,
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
            after_step: AtomicBool::new(false),
            end: End::of(program),
            free: Mutex::default(),
        });
        let (wanted, asked) = sync_channel(1);
        let (tables, own) = (lookups.clone(), Arc::clone(&shared));
        let puller = std::thread::Builder::new().name("pull-ahead".to_owned());
        let puller = puller.spawn(move || own.pull_all(&tables, &asked)).map_err(|error| {
            Error::Settings(format!("cannot start a thread that pulls rows ahead: {error}"))
        })?;
        let (wanted, puller, device) = (Some(wanted), Some(puller), device.cloned());
        Ok(Some(Ahead { lookups, at, device, shared, wanted, puller }))
    }

    /// The servers, as the step is to see them.
    pub(super) fn remote(&self) -> Arc<dyn Remote> {
        Arc::clone(&self.shared) as Arc<dyn Remote>
    }

    /// Whether there is any use in it.
    pub(super) fn is_allowed(&self) -> bool {
        self.shared.is_allowed.load(Ordering::Relaxed)
    }

    /// The batch whose rows were pulled last is the next to be trained.
    pub(super) fn next_step(&self) {
        let pulled = &mut *lock(&self.shared.pulled);
        pulled.running += 1;
        pulled.sends = 0;
    }

    /// Begins to pull the rows of the batch after the one that is trained next.
    ///
    /// # Errors
    /// When ids cannot be read.
    pub(super) fn pull(&mut self, feeds: &[&Tensor]) -> Result<()> {
        let mut all = Vec::with_capacity(self.lookups.len());
        let batch = lock(&self.shared.pulled).running + 1;
        for (number, (lookup, at)) in self.lookups.iter().zip(&self.at).enumerate() {
            let mut rows = lock(&self.shared.free).pop().unwrap_or_default();
            (rows.batch, rows.lookup) = (batch, number);
            rows.table.clone_from(&lookup.table.name);
            rows.ids.resize_with(at.len(), Vec::new);
            rows.values.resize_with(at.len(), || Tensor::empty(DType::F32));
            for ((feed, ids), values) in at.iter().zip(&mut rows.ids).zip(&mut rows.values) {
                read(feeds[*feed], ids)?;
                let dims = Dims::new(&[ids.len(), lookup.table.width]);
                room(self.device.as_deref(), values, dims);
            }
            all.push(rows);
        }
        let Some(wanted) = &self.wanted else { return Ok(()) };
        let pending = self.lookups.iter().map(|lookup| (batch, lookup.table.name.clone()));
        lock(&self.shared.pulled).pending.extend(pending);
        // The thread is there as long as this is, unless it panicked.
        if wanted.send(all).is_err() {
            lock(&self.shared.pulled).pending.clear();
        }
        Ok(())
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.wanted = None;
        lock(&self.shared.pulled).closing = true;
        self.shared.news.notify_all();
        if let Some(puller) = self.puller.take() {
            puller.join().ok();
        }
    }
}

/// Makes `tensor` one of this shape, in page-locked memory where the device has some.
fn room(device: Option<&dyn Device>, tensor: &mut Tensor, dims: Dims) {
    let bytes = dims.numel() * DType::F32.size();
    let fits = tensor.page_locked().is_some_and(|memory| memory.bytes() >= bytes);
    if !fits
        && let Some(device) = device
        && let Ok(locked) = locked_room(device, DType::F32, dims)
    {
        *tensor = locked;
    }
    tensor.resize(DType::F32, dims);
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

impl End {
    /// That of the steps of a program.
    fn of(program: &Program) -> End {
        let count = |kinds: &[&str]| {
            let ops = program.global().ops.iter();
            ops.filter(|op| kinds.contains(&op.kind.as_str())).count()
        };
        match count(&["send_barrier"]) {
            0 => End::Sends(count(&["send", "distributed_push_sparse"])),
            _ => End::Barrier,
        }
    }
}

impl Shared {
    fn pull_all(&self, lookups: &[Lookup], asked: &Receiver<Vec<Rows>>) {
        while let Ok(all) = asked.recv() {
            for mut rows in all {
                let done = self.pull(&lookups[rows.lookup].table, &mut rows);
                let mut pulled = lock(&self.pulled);
                let own = (rows.batch, &rows.table);
                let at = pulled.pending.iter().position(|(batch, table)| (*batch, table) == own);
                at.map(|at| pulled.pending.swap_remove(at));
                match done {
                    Ok(true) => pulled.ready.push(rows),
                    Ok(false) => self.is_allowed.store(false, Ordering::Relaxed),
                    Err(_) => {}
                }
                self.news.notify_all();
            }
        }
    }

    /// Pulls rows, at once or when the step before their own is over; whether they are here.
    fn pull(&self, table: &TableRef, rows: &mut Rows) -> EngineResult<bool> {
        let ids: Vec<&[i64]> = rows.ids.iter().map(Vec::as_slice).collect();
        let outs = rows.values.iter_mut().map(|values| values.as_mut_slice::<f32>());
        let mut outs = outs.collect::<EngineResult<Vec<&mut [f32]>>>()?;
        if !self.after_step.load(Ordering::Relaxed) {
            if self.remote.pull_ahead(table, &ids, &mut outs, false)? {
                return Ok(true);
            }
            self.after_step.store(true, Ordering::Relaxed);
        }
        let is_early = |pulled: &mut Pulled| !pulled.closing && pulled.up_to < rows.batch;
        let pulled = self.news.wait_while(lock(&self.pulled), is_early);
        let closing = pulled.unwrap_or_else(PoisonError::into_inner).closing;
        // Nobody needs rows that were asked for at the end.
        Ok(closing || self.remote.pull_ahead(table, &ids, &mut outs, true)?)
    }

    /// Takes rows that are here or on their way, if they are those.
    fn take(&self, table: &TableRef, ids: &[&[i64]]) -> Option<Rows> {
        let asked = Instant::now();
        let mut pulled = lock(&self.pulled);
        // The step before is over, whatever it has sent.
        self.let_pull(&mut pulled, 0);
        let is_on_its_way = |pulled: &mut Pulled| {
            let running = pulled.running;
            let is_it = |(batch, name): &(u64, String)| *batch == running && *name == table.name;
            pulled.pending.iter().any(is_it)
        };
        let pulled = self.news.wait_while(pulled, is_on_its_way);
        let mut pulled = pulled.unwrap_or_else(PoisonError::into_inner);
        let (running, ready) = (pulled.running, &mut pulled.ready);
        let is_it = |rows: &Rows| {
            rows.batch == running
                && rows.table == table.name
                && rows.ids.iter().map(Vec::as_slice).eq(ids.iter().copied())
        };
        let found = ready.iter().position(is_it).map(|at| ready.swap_remove(at));
        // What was pulled for a step that asked for something else is of no use any more.
        let is_old = |rows: &mut Rows| rows.batch <= running && rows.table == table.name;
        let unused = ready.extract_if(.., is_old);
        lock(&self.free).extend(unused);
        if found.is_some() {
            self.remote.waited_for_rows(asked.elapsed());
        }
        found
    }

    /// Rows of the batch `after` the one of the running step may be pulled.
    fn let_pull(&self, pulled: &mut Pulled, after: u64) {
        let up_to = pulled.running + after;
        if pulled.up_to < up_to {
            pulled.up_to = up_to;
            self.news.notify_all();
        }
    }

    /// The step has sent something.
    fn note_send(&self) {
        let mut pulled = lock(&self.pulled);
        pulled.sends += 1;
        if self.end == End::Sends(pulled.sends) {
            self.let_pull(&mut pulled, 1);
        }
    }
}

impl Remote for Shared {
    fn send(&self, how: &Sending, values: &[&Value]) -> EngineResult<()> {
        self.remote.send(how, values)?;
        self.note_send();
        Ok(())
    }

    fn send_barrier(&self, endpoints: &[String]) -> EngineResult<()> {
        self.remote.send_barrier(endpoints)?;
        if self.end == End::Barrier {
            self.let_pull(&mut lock(&self.pulled), 1);
        }
        Ok(())
    }

    fn recv(
        &self,
        pieces: &[Piece],
        outs: &mut [&mut Tensor],
        versions: &mut [u64],
    ) -> EngineResult<()> {
        self.remote.recv(pieces, outs, versions)
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
                    out.copy_from_slice(values.as_slice()?);
                }
                lock(&self.free).push(rows);
                Ok(())
            }
            None => self.remote.pull_rows(table, ids, outs),
        }
    }

    fn pull_tensors(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        outs: &mut [&mut Tensor],
    ) -> EngineResult<()> {
        let Some(mut rows) = self.take(table, ids) else {
            return self.remote.pull_tensors(table, ids, outs);
        };
        for (values, out) in rows.values.iter_mut().zip(outs) {
            if values.page_locked().is_none() || out.page_locked().is_none() {
                out.as_mut_slice::<f32>()?.copy_from_slice(values.as_slice()?);
                continue;
            }
            let (dims, lod) = (out.dims(), out.lod().clone());
            // The step's own memory is free when an op of it runs, and serves the next pull.
            std::mem::swap(values, *out);
            out.resize(DType::F32, dims);
            out.set_lod(&lod);
        }
        lock(&self.free).push(rows);
        Ok(())
    }

    fn push_rows(
        &self,
        table: &TableRef,
        ids: &[&[i64]],
        grads: &[&[f32]],
        counts: Option<&[[f32; 2]]>,
    ) -> EngineResult<()> {
        self.remote.push_rows(table, ids, grads, counts)?;
        self.note_send();
        Ok(())
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
        /// Whether it allows pulls while a step runs, and when one is over.
        allows: [bool; 2],
        /// Pulls by steps, and those ahead of them.
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

        fn recv(&self, _: &[Piece], _: &mut [&mut Tensor], _: &mut [u64]) -> EngineResult<()> {
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
            is_over: bool,
        ) -> EngineResult<bool> {
            lock(&self.pulls)[1] += 1;
            fill(ids, outs);
            Ok(self.allows[usize::from(is_over)])
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

    fn ahead(allows: [bool; 2], ops: &[&str]) -> (Ahead, Arc<Fake>) {
        let fake = Arc::new(Fake { allows, pulls: Mutex::default() });
        let remote = Arc::clone(&fake) as Arc<dyn Remote>;
        let mut program = program();
        program.global_mut().ops.extend(ops.iter().map(|kind| Op::new(*kind)));
        let made = Ahead::of(&program, &["label", "a", "b"], &remote, None).unwrap();
        (made.unwrap(), fake)
    }

    /// The rows of a batch for the step after the next.
    fn begin(ahead: &mut Ahead, a: &[i64], b: &[i64]) {
        ahead.pull(&[&ids(&[0]), &ids(a), &ids(b)]).unwrap();
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
        let (mut ahead, fake) = ahead([true, true], &[]);
        begin(&mut ahead, &[0, 7], &[8, 0]);
        for step in 0..3 {
            ahead.next_step();
            // Those of the batch after it may come before they are asked for.
            begin(&mut ahead, &[step + 1, 7], &[8, step + 1]);
            let (a, b) = ([step, 7], [8, step]);
            let step = step as f32;
            assert_eq!(pull(&ahead, &a, &b), [step, step, 7.0, 7.0, 8.0, 8.0, step, step]);
        }
        ahead.next_step();
        // Others are pulled as they are asked for, and what was pulled for nobody is forgotten.
        assert_eq!(pull(&ahead, &[3], &[4]), [3.0, 3.0, 4.0, 4.0]);
        assert_eq!(*lock(&fake.pulls), [1, 4]);
        assert!(lock(&ahead.shared.pulled).ready.is_empty());
    }

    #[test]
    fn tensors_of_a_step_get_the_rows_and_keep_their_shapes() {
        let (mut ahead, fake) = ahead([true, true], &[]);
        begin(&mut ahead, &[1, 2], &[3]);
        ahead.next_step();
        let (mut x, mut y) = (Tensor::zeros(DType::F32, [2, 1, 2]), Tensor::zeros(DType::F32, [2]));
        let table = &ahead.lookups[0].table;
        ahead.remote().pull_tensors(table, &[&[1, 2], &[3]], &mut [&mut x, &mut y]).unwrap();
        assert_eq!(x, Tensor::from_slice([2, 1, 2], &[1.0f32, 1.0, 2.0, 2.0]).unwrap());
        assert_eq!(y, Tensor::from_slice([2], &[3.0f32, 3.0]).unwrap());
        assert_eq!(*lock(&fake.pulls), [0, 1]);
    }

    #[test]
    fn rows_that_must_be_new_are_pulled_when_the_step_before_is_over() {
        let sending = Sending { pieces: Vec::new(), merge_add: false };
        let asked = |fake: &Fake| lock(&fake.pulls)[1];
        for ops in [&["send", "send", "send_barrier", "recv"][..], &["send", "send", "recv"]] {
            let (mut ahead, fake) = ahead([false, true], ops);
            let remote = ahead.remote();
            begin(&mut ahead, &[1], &[2]);
            remote.send(&sending, &[]).unwrap();
            remote.send(&sending, &[]).unwrap();
            remote.send_barrier(&[]).unwrap();
            ahead.next_step();
            assert_eq!(pull(&ahead, &[1], &[2]), [1.0, 1.0, 2.0, 2.0]);
            // The first was asked for twice, to learn when.
            assert_eq!((ahead.is_allowed(), asked(&fake)), (true, 2));
            // The rows of the batch after are not, while this step has not sent everything.
            begin(&mut ahead, &[3], &[4]);
            remote.send(&sending, &[]).unwrap();
            assert_eq!(lock(&ahead.shared.pulled).up_to, 1);
            remote.send(&sending, &[]).unwrap();
            remote.send_barrier(&[]).unwrap();
            assert_eq!(lock(&ahead.shared.pulled).up_to, 2);
            ahead.next_step();
            assert_eq!(pull(&ahead, &[3], &[4]), [3.0, 3.0, 4.0, 4.0]);
            assert_eq!(*lock(&fake.pulls), [0, 3]);
        }
    }

    #[test]
    fn a_step_that_sent_less_keeps_nobody_waiting() {
        let (mut ahead, fake) = ahead([false, true], &["send"]);
        begin(&mut ahead, &[1], &[2]);
        ahead.next_step();
        assert_eq!(pull(&ahead, &[1], &[2]), [1.0, 1.0, 2.0, 2.0]);
        // Nor does one whose rows nobody asks for.
        begin(&mut ahead, &[3], &[4]);
        drop(ahead);
        assert_eq!(*lock(&fake.pulls), [0, 2]);
    }

    #[test]
    fn where_nothing_can_be_pulled_ahead_steps_pull() {
        let (mut ahead, fake) = ahead([false, false], &[]);
        assert!(ahead.is_allowed());
        begin(&mut ahead, &[1], &[2]);
        ahead.next_step();
        assert_eq!(pull(&ahead, &[1], &[2]), [1.0, 1.0, 2.0, 2.0]);
        assert!(!ahead.is_allowed());
        assert_eq!(*lock(&fake.pulls), [1, 2]);
    }

    #[test]
    fn ids_that_a_step_computes_cannot_be_known() {
        let fake = Fake { allows: [true; 2], pulls: Mutex::default() };
        let fake = Arc::new(fake) as Arc<dyn Remote>;
        assert!(Ahead::of(&program(), &["a"], &fake, None).unwrap().is_none());
    }
}
