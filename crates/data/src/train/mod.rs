//! Training over a dataset: one thread for each entry of its batches.
//!
//! Each thread has a step of its own on the scope that all share. The thread that calls [`train`]
//! only watches: it asks whether somebody wants to stop, so nothing here needs it for long, and a
//! caller with a lock of its own (Python's) lets go of it before.

mod ahead;
mod counts;
mod lane;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bireme_engine::collective::Collective;
use bireme_engine::device::{Device, OnMemory};
use bireme_engine::ir::Program;
use bireme_engine::remote::Remote;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Scope, Step};

use crate::{Batch, Batches, Error, Result, Slot};

use lane::Lane;

/// Between two questions whether somebody wants to stop.
const TICK: Duration = Duration::from_millis(50);

/// As many training threads are allowed on any machine, and so many for each core of a larger one.
const MOST_THREADS: usize = 64;
const THREADS_PER_CORE: usize = 16;

/// Batches that threads train at one time on parameters of their process. A gradient is as many
/// updates old as there are others at work, and with too many of them the updates that the same
/// direction gets before anybody sees the effect of the first throw the parameters back and forth:
/// in a simulation of 1,000,000 samples of the demo, where 488 updates of Adam one after the other
/// give an AUC of 0.807, two, four, eight and sixteen at one time give 0.807, 0.803, 0.769 and 0.631;
/// four, eight and sixteen give 0.806, 0.802 and 0.776 with what the engine does about it
/// ([`bireme_engine::Executor::hogwild`]).
const MOST_AT_ONCE: usize = 4;

/// What is trained, and how.
#[derive(Clone)]
pub struct Training<'a> {
    /// What a step runs.
    pub program: &'a Program,
    /// Where its parameters are; the startup program has been run.
    pub scope: &'a Scope,
    /// The slots of the batches; those that the program does not declare are not fed.
    pub slots: &'a [Slot],
    /// Variables that the hook sees after each step.
    pub fetches: &'a [String],
    /// Counters that each thread keeps for itself and that are added up at the end, Paddle's
    /// `stat_var_names`; those of `auc` ops are found by themselves.
    pub private: &'a [String],
    /// Threads that one step splits its batch over. 1.
    pub split: usize,
    /// Whether nothing is learned: gradients and updates are left out. False.
    pub infer: bool,
    /// Whether every op's output is checked for NaN and infinity. False.
    pub check_finite: bool,
    /// The card that steps run on, if not the host. It has one training thread: the card works on one batch at a time,
    /// while others are read.
    pub device: Option<Arc<dyn Device>>,
    /// Is told what a step takes of the card's memory.
    pub on_memory: Option<OnMemory>,
    /// Is told what makes training slower than it could be, once.
    pub warn: Option<&'a (dyn Fn(&str) + Sync)>,
    /// The parameter servers.
    pub remote: Option<Arc<dyn Remote>>,
    /// The other ranks.
    pub collective: Option<Arc<dyn Collective>>,
    /// Says whether somebody wants to stop; asked on the thread that calls [`train`].
    pub interrupt: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// Says whether something is so for all trainers: where steps wait for each other (sync,
    /// collective), all end with the one that has the fewest batches ([`crate::Agreed`]). The
    /// others' remaining batches are not trained.
    pub agree: Option<&'a (dyn Fn(bool) -> Result<bool> + Sync)>,
    /// The random sequence to go on with ([`bireme_engine::graph::ProgramHandle::sequence`]), so that
    /// a second training of a program does not repeat the numbers of the first. New ones, if none.
    pub sequence: Option<u64>,
    /// Called after each step on the thread that made it; its error ends the training.
    pub on_batch: Option<&'a Hook<'a>>,
}

/// See [`Training::on_batch`].
pub type Hook<'a> = dyn Fn(&Progress<'_>) -> Result<()> + Sync + 'a;

/// A step that was made.
pub struct Progress<'a> {
    /// The training thread, from 0.
    pub thread: usize,
    /// Batches that this thread has trained.
    pub batch: u64,
    /// Batches that all threads have trained.
    pub batches: u64,
    /// Samples that all threads have trained.
    pub samples: u64,
    /// What the step was fed.
    pub data: &'a Batch,
    step: &'a Step,
    fetches: &'a [String],
}

impl Progress<'_> {
    /// The names of what was fetched.
    pub fn names(&self) -> &[String] {
        self.fetches
    }

    /// What was fetched, by its place among the fetches.
    pub fn fetched(&self, fetch: usize) -> &Tensor {
        self.step.fetched(fetch)
    }
}

/// What a training has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Batches of all threads.
    pub batches: u64,
    /// Samples of all threads.
    pub samples: u64,
    /// From the first step to the last.
    pub seconds: f64,
    /// How long threads waited for data, all together.
    pub wait_for_data_seconds: f64,
}

impl<'a> Training<'a> {
    /// Training of a program with nothing special.
    pub fn new(program: &'a Program, scope: &'a Scope, slots: &'a [Slot]) -> Training<'a> {
        Training {
            program,
            scope,
            slots,
            fetches: &[],
            private: &[],
            split: 1,
            infer: false,
            check_finite: false,
            device: None,
            on_memory: None,
            warn: None,
            remote: None,
            collective: None,
            interrupt: None,
            agree: None,
            sequence: None,
            on_batch: None,
        }
    }
}

/// How `threads` threads train a program: training threads, and threads that each of them splits its
/// batch over. Several threads that train at once are quickest, but not more than [`MOST_AT_ONCE`]
/// where they change parameters that all of them use: those beyond split batches instead, and as
/// many are used as groups of one size can have. A program whose steps are in step with other
/// processes' (sync, half-async, collective) has one training thread, and so has training that must
/// be repeatable to the bit. See [`too_many_threads`].
pub fn divide(program: &Program, threads: usize, repeatable: bool) -> (usize, usize) {
    let threads = threads.clamp(1, most_threads(cores()));
    if repeatable || is_in_step(program) {
        return (1, threads);
    }
    if !updates_parameters(program) || has_ragged_feeds(program) {
        return (threads, 1);
    }
    let split = |groups: usize| threads / groups;
    // Of as many threads, the more groups the less waits for others.
    let groups = (2..=MOST_AT_ONCE).max_by_key(|groups| groups * split(*groups)).unwrap_or(1);
    let groups = groups.min(threads);
    (groups, split(groups))
}

/// Whether its steps change parameters of this process; servers change their own.
fn updates_parameters(program: &Program) -> bool {
    program.global().ops.iter().any(|op| !op.outputs_of("ParamOut").is_empty())
}

/// Whether it is fed sequences, by which a step does not split its batch.
fn has_ragged_feeds(program: &Program) -> bool {
    program.global().vars.values().any(|var| var.need_check_feed && var.lod_level > 0)
}

/// A warning where there are far more threads than the machine has cores, of which [`divide`] does
/// not use all: each has the memory of a step.
pub fn too_many_threads(threads: usize) -> Option<String> {
    let cores = cores();
    let most = most_threads(cores);
    (threads > most).then(|| {
        format!(
            "{threads} training threads are too many for {cores} cores, since each needs the \
             memory of a step: {most} are used; {cores} are usually the quickest"
        )
    })
}

fn most_threads(cores: usize) -> usize {
    MOST_THREADS.max(THREADS_PER_CORE * cores)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Whether the steps of a program wait for those of other processes, so that all must make as many;
/// see [`Training::agree`].
pub fn is_in_step(program: &Program) -> bool {
    // The steps of a pass follow one another: its rows are variables of the trainer.
    let in_step =
        |kind: &str| matches!(kind, "send_barrier" | "pass_table") || kind.starts_with("c_");
    program.global().ops.iter().any(|op| in_step(&op.kind))
}

/// Trains until all batches are used up.
///
/// # Errors
/// The first error of a thread, of the data or of the hook; it stops all threads.
/// [`Error::Interrupted`] when somebody wanted to stop.
pub fn train(training: &Training<'_>, batches: Vec<Box<dyn Batches>>) -> Result<Summary> {
    let start = Instant::now();
    let testing = training.infer.then(|| training.program.clone_for_test());
    let program = testing.as_ref().unwrap_or(training.program);
    let counters = counts::find(program, training.private, batches.len());
    let shared = Shared { lanes: batches.len(), ..Shared::default() };
    let closers: Vec<_> = batches.iter().map(|batches| batches.closer()).collect();
    let mut lanes = Vec::new();
    for (thread, batches) in batches.into_iter().enumerate() {
        lanes.push(Lane::new(training, program, &counters, thread, batches, &shared)?);
    }
    let interrupted = std::thread::scope(|threads| {
        let mut started = 0;
        for lane in &mut lanes {
            let thread = std::thread::Builder::new().name(format!("train-{}", lane.thread()));
            match thread.spawn_scoped(threads, || lane.run(training, &shared)) {
                Ok(_) => started += 1,
                Err(error) => {
                    let problem = format!("cannot start a training thread: {error}; use fewer");
                    shared.fail(Error::Settings(problem));
                    break;
                }
            }
        }
        shared.watch(started, training.interrupt, &closers)
    });
    let failure = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    match failure {
        Some(_) if interrupted => return Err(Error::Interrupted),
        Some(error) => return Err(error),
        None => {}
    }
    if lanes.len() > 1 {
        counts::merge(training.scope, &counters, &lanes)?;
    }
    Ok(Summary {
        batches: shared.batches.load(Ordering::Relaxed),
        samples: shared.samples.load(Ordering::Relaxed),
        seconds: start.elapsed().as_secs_f64(),
        wait_for_data_seconds: lanes.iter().map(|lane| lane.waited().as_secs_f64()).sum(),
    })
}

/// What the threads of a training share.
#[derive(Default)]
pub(crate) struct Shared {
    /// How many they are.
    lanes: usize,
    /// Steps end when it is true.
    stop: Arc<AtomicBool>,
    failure: Mutex<Option<Error>>,
    batches: AtomicU64,
    samples: AtomicU64,
    ended: Mutex<usize>,
    changed: Condvar,
}

impl Shared {
    /// Stops all threads; the first error is the one that counts.
    fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn thread_ended(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Waits for the end of so many threads; whether somebody wanted to stop.
    fn watch(
        &self,
        threads: usize,
        interrupt: Option<&(dyn Fn() -> bool + Sync)>,
        closers: &[crate::Closer],
    ) -> bool {
        let mut interrupted = false;
        let mut closed = false;
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        while *ended < threads {
            (ended, _) =
                self.changed.wait_timeout(ended, TICK).unwrap_or_else(PoisonError::into_inner);
            if !interrupted && interrupt.is_some_and(|asked| asked()) {
                interrupted = true;
                self.fail(Error::Interrupted);
            }
            // A thread that waits for data would not see that all shall stop.
            if self.stop.load(Ordering::Relaxed) && !closed {
                closers.iter().for_each(|close| close());
                closed = true;
            }
        }
        interrupted
    }
}

#[cfg(test)]
mod tests;
