//! One training thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bireme_engine::device::FeedMemory;
use bireme_engine::ir::Program;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Draws, Executor, Place, Step};

use super::ahead::Ahead;
use super::counts::Counter;
use super::{Progress, Shared, Training};
use crate::{Agreed, Batch, Batches, Error, Result};

/// A thread's own step and batches.
pub(super) struct Lane<'a> {
    thread: usize,
    step: Step,
    batches: Box<dyn Batches + 'a>,
    batch: Batch,
    /// Where batches are assembled that go to a card.
    memory: Option<Arc<FeedMemory>>,
    /// Pulls rows of the next batch beside a step, where the one after would wait for them; and that batch.
    ahead: Option<(Ahead, Batch)>,
    /// Which slots are fed.
    fed: Vec<usize>,
    waited: Duration,
}

impl<'a> Lane<'a> {
    pub(super) fn new(
        training: &Training<'a>,
        program: &Program,
        counters: &[Counter],
        thread: usize,
        batches: Box<dyn Batches>,
        shared: &Shared,
    ) -> Result<Lane<'a>> {
        let stop = Arc::clone(&shared.stop);
        let draws = match training.sequence.filter(|_| !training.infer) {
            Some(sequence) => training.scope.draws(sequence, thread),
            None => Draws::of_thread(thread),
        };
        let executor = match &training.device {
            Some(device) => Executor::on(Arc::clone(device)),
            None => Executor::new(Place::Cpu)?,
        };
        let executor = match &training.on_memory {
            Some(tell) => executor.on_memory(Arc::clone(tell)),
            None => executor,
        };
        let mut executor = executor
            .draws(draws)
            .with_scope(training.scope.clone())
            .threads(training.split)
            .hogwild(shared.lanes > 1)
            .check_finite(training.check_finite)
            .interrupt(Arc::new(move || stop.load(Ordering::Relaxed)));
        let declared = |&at: &usize| program.global().var(&training.slots[at].name).is_some();
        let fed: Vec<usize> = (0..training.slots.len()).filter(declared).collect();
        let feeds: Vec<&str> = fed.iter().map(|&at| training.slots[at].name.as_str()).collect();
        // Several threads of the host hide each other's waits; nothing is sent where nothing is learned.
        let waits = training.device.is_some() || shared.lanes == 1 && !training.infer;
        let ahead = match &training.remote {
            Some(remote) if waits && training.agree.is_none() => {
                Ahead::of(program, &feeds, remote, training.device.as_ref())?
            }
            _ => None,
        };
        executor.connect(match &ahead {
            Some(ahead) => Some(ahead.remote()),
            None => training.remote.clone(),
        });
        executor.join(training.collective.clone());
        let fetches: Vec<&str> = training.fetches.iter().map(String::as_str).collect();
        let private: Vec<&str> = counters.iter().map(|counter| counter.name.as_str()).collect();
        let step = executor.prepare_private(program, &feeds, &fetches, &private)?;
        let memory = training.device.as_ref().map(|device| Arc::new(FeedMemory::new(device)));
        let empty = || {
            let mut batch = Batch::of(training.slots);
            memory.iter().for_each(|memory| batch.assemble_in(memory));
            batch
        };
        let batches: Box<dyn Batches + 'a> = match training.agree {
            Some(agree) => Box::new(Agreed::new(batches, training.slots, Arc::new(agree))),
            None => batches,
        };
        let (batch, ahead) = (empty(), ahead.map(|ahead| (ahead, empty())));
        Ok(Lane { thread, step, batches, batch, memory, ahead, fed, waited: Duration::ZERO })
    }

    pub(super) fn thread(&self) -> usize {
        self.thread
    }

    pub(super) fn waited(&self) -> Duration {
        self.waited
    }

    /// A private counter as this thread has it.
    pub(super) fn counter(&self, name: &str) -> Option<Tensor> {
        self.step.persistable(name)
    }

    /// Trains until there are no more batches, or all shall stop.
    pub(super) fn run(&mut self, training: &Training<'_>, shared: &Shared) {
        let ended = Ended(shared);
        if let Err(error) = self.steps(training, shared) {
            shared.fail(error);
        }
        drop(ended);
    }

    fn steps(&mut self, training: &Training<'_>, shared: &Shared) -> Result<()> {
        let mut trained = 0;
        let mut more = self.next_batch()?;
        while more && !shared.stop.load(Ordering::Relaxed) {
            self.tell(training);
            let is_ready = self.look_ahead()?;
            let tensors = self.batch.tensors();
            let feeds: Vec<&Tensor> = self.fed.iter().map(|&at| tensors[at]).collect();
            self.step.run(&feeds)?;
            trained += 1;
            let rows = self.batch.rows() as u64;
            let batches = shared.batches.fetch_add(1, Ordering::Relaxed) + 1;
            let samples = shared.samples.fetch_add(rows, Ordering::Relaxed) + rows;
            if let Some(hook) = training.on_batch {
                hook(&Progress {
                    thread: self.thread,
                    batch: trained,
                    batches,
                    samples,
                    data: &self.batch,
                    step: &self.step,
                    fetches: training.fetches,
                })?;
            }
            more = match (is_ready, &mut self.ahead) {
                (Some(is_ready), Some((ahead, next))) => {
                    std::mem::swap(&mut self.batch, next);
                    ahead.next_step();
                    is_ready
                }
                _ => self.next_batch()?,
            };
        }
        Ok(())
    }

    /// Reads a batch; whether there was one.
    fn next_batch(&mut self) -> Result<bool> {
        let asked = Instant::now();
        let more = read(&mut *self.batches, &mut self.batch, self.memory.as_ref())?;
        self.waited += asked.elapsed();
        Ok(more)
    }

    /// Says, once, if batches for a card cannot lie in memory that it copies from by itself.
    fn tell(&self, training: &Training<'_>) {
        let problem = self.memory.as_ref().and_then(|memory| memory.problem());
        if let (Some(problem), Some(warn)) = (problem, training.warn) {
            warn(&problem);
        }
    }

    /// Reads the batch after this one and has its rows pulled, where that may be; whether there is one.
    fn look_ahead(&mut self) -> Result<Option<bool>> {
        let Some((ahead, next)) = self.ahead.as_mut().filter(|(ahead, _)| ahead.is_allowed())
        else {
            return Ok(None);
        };
        let asked = Instant::now();
        let more = read(&mut *self.batches, next, self.memory.as_ref())?;
        self.waited += asked.elapsed();
        if more {
            let tensors = next.tensors();
            let feeds: Vec<&Tensor> = self.fed.iter().map(|&at| tensors[at]).collect();
            ahead.pull(&feeds)?;
        }
        Ok(Some(more))
    }
}

/// Reads a batch. What readers hand over are batches of their own: each is assembled in the card's
/// memory from its second time on.
fn read(
    batches: &mut dyn Batches,
    batch: &mut Batch,
    memory: Option<&Arc<FeedMemory>>,
) -> Result<bool> {
    let more = batches.next(batch)?;
    memory.iter().for_each(|memory| batch.assemble_in(memory));
    Ok(more)
}

/// Says that a thread has ended, even when it panics.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let problem = "a training thread panicked: please report it with your script";
            self.0.fail(Error::Settings(problem.to_owned()));
        }
        self.0.thread_ended();
    }
}
