//! The batches of a stream: read ahead by one thread, brought in order to whoever trains them, while
//! another thread pushes what has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bireme_comm::Interrupt;
use bireme_data::{Batch, Batches, Closer, Error, Result, Slot};

use super::leaving::Block;
use super::{Arriving, Shared, Tell, lock, to_data};
use crate::gpubox::plan::PassPlan;

/// Batches that are made ready ahead of the one that is trained.
const AHEAD: usize = 4;
/// Blocks that may wait for their push.
const MAX_BLOCKS: usize = 8;

/// A batch that is read, with what it needs.
struct Ready {
    batch: Batch,
    tables: Vec<Arriving>,
}

/// See [`super::Stream::over`].
pub(super) struct Streamed {
    shared: Arc<Shared>,
    is_trained: bool,
    ready: Receiver<Result<Ready>>,
    /// Batches that were used, to be filled again.
    spare: Sender<Batch>,
    /// Nobody wants more batches.
    stop: Arc<AtomicBool>,
    close: Arc<Closer>,
    is_over: bool,
    reader: Option<JoinHandle<()>>,
    left: Option<SyncSender<Arc<Block>>>,
    pusher: Option<JoinHandle<()>>,
    /// When the last batch was handed over.
    handed_over: Option<Instant>,
    tell: Option<(Duration, Tell)>,
    told: Instant,
}

impl Streamed {
    /// Begins to read.
    pub(super) fn start(
        shared: &Arc<Shared>,
        batches: Box<dyn Batches>,
        slots: &[Slot],
        is_trained: bool,
    ) -> Result<Streamed> {
        let places = places(&shared.plan, slots)?;
        shared.check().map_err(to_data)?;
        if std::mem::replace(&mut lock(&shared.mover).is_running, true) {
            return Err(Error::Settings(
                "the stream of this job is being trained already: train one dataset at a time"
                    .to_owned(),
            ));
        }
        let (send, ready) = sync_channel(AHEAD);
        let (spare, spares) = channel();
        let (left, blocks) = sync_channel::<Arc<Block>>(MAX_BLOCKS);
        let stop = Arc::new(AtomicBool::new(false));
        let mut streamed = Streamed {
            shared: Arc::clone(shared),
            is_trained,
            ready,
            spare,
            stop: Arc::clone(&stop),
            close: Arc::new(batches.closer()),
            is_over: false,
            reader: None,
            left: Some(left),
            pusher: None,
            handed_over: None,
            tell: None,
            told: Instant::now(),
        };
        let reader =
            Reader { shared: Arc::clone(shared), batches, slots: slots.to_vec(), places, stop };
        streamed.reader = Some(spawn("rows-ahead", move || reader.read(&spares, &send))?);
        let pushing = Pushing(Arc::clone(shared));
        let push = move || blocks.iter().for_each(|block| pushing.0.push(&block));
        streamed.pusher = Some(spawn("push-rows", push)?);
        Ok(streamed)
    }

    /// As [`super::Stream::telling`].
    pub(super) fn telling(mut self, every: Duration, tell: Tell) -> Streamed {
        self.tell = Some((every, tell));
        self
    }

    /// Carries out what a batch needs.
    fn carry_out(&self, tables: Vec<Arriving>, is_handed_over: bool) -> Result<()> {
        let done = self.shared.carry_out(tables, is_handed_over, self.is_trained);
        let left = done.map_err(|error| {
            self.shared.fail(&error);
            to_data(error)
        })?;
        for block in left {
            *lock(&self.shared.pending) += 1;
            let sent = self.left.as_ref().is_some_and(|left| left.send(block).is_ok());
            if !sent {
                // The thread has panicked, which is said at the end.
                *lock(&self.shared.pending) = 0;
            }
        }
        Ok(())
    }

    fn tell(&mut self) {
        if let Some((every, tell)) = &self.tell
            && self.told.elapsed() >= *every
        {
            tell(&lock(&self.shared.report));
            self.told = Instant::now();
        }
    }

    /// Ends the threads. Batches that are ready are not trained, but their rows are where they were
    /// decided to be, so that another training may follow.
    fn finish(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        self.stop.store(true, Ordering::Relaxed);
        (self.close)();
        let mut done = Ok(());
        while let Ok(ready) = self.ready.recv() {
            if let (Ok(Ready { tables, .. }), Ok(())) = (ready, &done) {
                done = self.carry_out(tables, false);
            }
        }
        self.left = None;
        let threads = [self.reader.take(), self.pusher.take()];
        if threads.into_iter().flatten().any(|thread| thread.join().is_err()) {
            let problem = "a thread that moves rows panicked: please report it with your script";
            self.shared.fail(&crate::Error::Config(problem.to_owned()));
        }
        lock(&self.shared.mover).is_running = false;
        done.and_then(|()| self.shared.check().map_err(to_data))
    }
}

impl Batches for Streamed {
    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        let asked = Instant::now();
        {
            let mut report = lock(&self.shared.report);
            let trained = self.handed_over.take().map(|since| asked - since);
            report.train_seconds += trained.unwrap_or_default().as_secs_f64();
        }
        if self.is_over {
            return Ok(false);
        }
        self.tell();
        self.shared.check().map_err(to_data)?;
        let Ok(ready) = self.ready.recv() else {
            return self.finish().map(|()| false);
        };
        let Ready { batch: mut next, tables } = ready?;
        lock(&self.shared.report).wait_seconds += asked.elapsed().as_secs_f64();
        self.carry_out(tables, true)?;
        std::mem::swap(batch, &mut next);
        // Nobody takes it where all was read.
        self.spare.send(next).ok();
        self.handed_over = Some(Instant::now());
        Ok(true)
    }

    fn skip(&mut self, batches: u64) -> Result<u64> {
        for skipped in 0..batches {
            match self.ready.recv() {
                Ok(ready) => self.carry_out(ready?.tables, false)?,
                Err(_) => return Ok(skipped),
            }
        }
        Ok(batches)
    }

    fn closer(&self) -> Closer {
        let (stop, close) = (Arc::clone(&self.stop), Arc::clone(&self.close));
        Box::new(move || {
            stop.store(true, Ordering::Relaxed);
            close();
        })
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        // Whoever uses the stream next is told.
        self.finish().ok();
    }
}

/// The thread that pushes; nobody waits for it when it has ended.
struct Pushing(Arc<Shared>);

impl Drop for Pushing {
    fn drop(&mut self) {
        *lock(&self.0.pending) = 0;
        self.0.arrived.notify_all();
    }
}

/// The thread that reads ahead.
struct Reader {
    shared: Arc<Shared>,
    batches: Box<dyn Batches>,
    slots: Vec<Slot>,
    places: Vec<Vec<usize>>,
    stop: Arc<AtomicBool>,
}

impl Reader {
    fn read(mut self, spares: &Receiver<Batch>, send: &SyncSender<Result<Ready>>) {
        // What was decided must be carried out, also where somebody interrupts the training.
        Interrupt::ignore_on_this_thread();
        loop {
            let batch = spares.try_recv().unwrap_or_else(|_| Batch::of(&self.slots));
            let Some(ready) = self.next(batch).transpose() else { return };
            let is_over = ready.is_err();
            if send.send(ready).is_err() || is_over {
                return;
            }
        }
    }

    fn next(&mut self, mut batch: Batch) -> Result<Option<Ready>> {
        let more = match self.stop.load(Ordering::Relaxed) {
            true => Ok(false),
            false => self.batches.next(&mut batch),
        };
        // Other trainers are told, also by one that cannot read on.
        let all_have = self.shared.all_have(matches!(more, Ok(true))).map_err(to_data);
        if !more? || !all_have? {
            return Ok(None);
        }
        let tables = self.shared.prepare(&batch, &self.places).map_err(to_data)?;
        Ok(Some(Ready { batch, tables }))
    }
}

/// Where the ids of each table are among the slots.
fn places(plan: &PassPlan, slots: &[Slot]) -> Result<Vec<Vec<usize>>> {
    let place = |table: &str, feed: &String| {
        slots.iter().position(|slot| slot.name == *feed).ok_or_else(|| {
            Error::Settings(format!(
                "table `{table}` looks up the ids of `{feed}`, which the dataset does not feed: add it to \
                 the dataset's variables (`set_use_var`)"
            ))
        })
    };
    let of_table = |table: &crate::gpubox::PassTable| {
        table.feeds.iter().map(|feed| place(&table.reference.name, feed)).collect()
    };
    plan.tables.iter().map(of_table).collect()
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| Error::Settings(format!("cannot start a thread for rows: {error}")))
}
