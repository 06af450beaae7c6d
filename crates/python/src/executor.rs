//! `Executor`: runs programs with numpy feeds and fetches.
//!
//! Feeds are windows onto the arrays they come in, fetches hand their memory to the arrays they go
//! out as, and the interpreter is free for other threads while a step runs.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

use bireme_data::train::{Progress, Training, divide, is_in_step, too_many_threads};
use bireme_engine::collective::Collective;
use bireme_engine::device::{Device, DeviceValue};
use bireme_engine::eager::Held;
use bireme_engine::ir::{self, Var};
use bireme_engine::remote::Remote;
use bireme_engine::tensor::{Dims, Tensor};
use bireme_engine::{
    DType, Error, Executor as Engine, Feed as StepFeed, Place, Result as EngineResult,
};
use bireme_fleet::collective::Rings;
use bireme_fleet::ps::heter::{HeterTrainer, RunsOn};
use bireme_fleet::ps::worker::Worker;
use bireme_fleet::{Reduce, group};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::block::name_of;
use crate::card::{self, Current};
use crate::context;
use crate::dataset::Data;
use crate::dataset_train::Told;
use crate::error::{enter, enter_data, to_py, unavailable};
use crate::gpubox;
use crate::jobs::{self, Kind};
use crate::lod_tensor::{LoDTensor, fetched_array};
use crate::place::device_of;
use crate::program::Program;
use crate::ranks;
use crate::scope::Scope;
use crate::session::session;
use crate::tensor::Tensor as EagerTensor;
use crate::window::Array;

/// Runs programs.
#[pyclass(frozen, weakref, module = "bireme._core")]
pub(crate) struct Executor {
    /// `None` once closed. Locked only while the interpreter is free, so that a thread that waits
    /// for the lock never keeps the one that has it from ending.
    engine: Mutex<Option<Engine>>,
    /// The thread that has the lock: a signal handler that runs inside a step must not wait for it.
    owner: Mutex<Option<ThreadId>>,
    /// What the programs that ran need of other processes, by their numbers.
    seen: Mutex<HashMap<u64, Seen>>,
    /// The parameter servers that its programs talk to.
    worker: Mutex<Option<Arc<Worker>>>,
    /// Threads that share the rows of a batch.
    threads: usize,
    /// The other ranks that its programs talk to.
    rings: Mutex<Option<Arc<Rings>>>,
    /// Whether it looks for NaN and infinity, whatever the others do.
    check_finite: bool,
    /// The card it runs on, if there is one.
    card: Option<Arc<dyn Device>>,
}

/// A program that has been looked at.
#[derive(Clone, Copy)]
struct Seen {
    version: u64,
    kind: Kind,
    is_training: bool,
    is_connected: bool,
}

impl Executor {
    /// What `program` needs of other processes; looked up once for each version of it.
    fn seen(&self, program: &Program) -> EngineResult<Seen> {
        let (id, version) = (program.handle.id(), program.handle.version());
        let mut seen = lock(&self.seen);
        if let Some(seen) = seen.get(&id).filter(|seen| seen.version == version) {
            return Ok(*seen);
        }
        let kind = program.handle.read(jobs::kind_of)?;
        let is_training = program.handle.read(jobs::is_training);
        let fresh = Seen { version, kind, is_training, is_connected: false };
        seen.insert(id, fresh);
        Ok(fresh)
    }

    /// Connects the engine to the servers of a trainer's program.
    fn connect(
        &self,
        engine: &mut Engine,
        program: &Program,
        scope: &bireme_engine::Scope,
    ) -> EngineResult<()> {
        // A copy: whoever edits the program meanwhile must not wait for a server.
        let copy = program.handle.read(Clone::clone);
        let wanted = jobs::worker_for(&copy, scope)?;
        let mut worker = lock(&self.worker);
        if !worker.as_ref().is_some_and(|worker| Arc::ptr_eq(worker, &wanted)) {
            engine.connect(Some(Arc::clone(&wanted) as Arc<dyn Remote>));
            *worker = Some(Arc::clone(&wanted));
        }
        drop(worker);
        if gpubox::is_trainer(&copy)
            && let Some(rings) = ranks::of_trainers(&wanted)?
        {
            self.join_rings(engine, rings)?;
        }
        if let Some(seen) = lock(&self.seen).get_mut(&program.handle.id()) {
            seen.is_connected = true;
        }
        Ok(())
    }

    /// A step of a trainer whose later stages heter workers run.
    fn run_stages(
        &self,
        engine: &mut Engine,
        program: &Program,
        scope: &bireme_engine::Scope,
        (names, feeds): (&[String], &[Feed]),
        fetches: &[String],
    ) -> EngineResult<Option<Vec<Tensor>>> {
        if !self.seen(program)?.is_connected {
            self.connect(engine, program, scope)?;
        }
        let worker = lock(&self.worker).clone().ok_or_else(|| Error::remote("not connected"))?;
        let declared = |name: &String| {
            let var = program.handle.read(|inner| inner.global().var(name).cloned());
            var.ok_or_else(|| {
                let problem = "the program has no such variable".to_owned();
                explain(Error::Feed { var: name.clone(), problem }, program)
            })
        };
        let vars = names.iter().map(declared).collect::<EngineResult<Vec<Var>>>()?;
        let converted = converted(&vars, feeds)?;
        let tensors = feeds.iter().zip(&converted).map(|(feed, other)| match other {
            Some(other) => Ok(other),
            None => feed.tensor(),
        });
        let tensors = tensors.collect::<EngineResult<Vec<&Tensor>>>()?;
        let fed: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(tensors).collect();
        let fetches: Vec<&str> = fetches.iter().map(String::as_str).collect();
        let run = |stages: &mut HeterTrainer| stages.run(&fed, &fetches);
        let copy = || program.handle.read(Clone::clone);
        jobs::with_stages(copy, scope, &worker, &self.own_stage(), run).map(Some)
    }

    /// What a trainer's own stage runs on.
    fn own_stage(&self) -> RunsOn {
        RunsOn { threads: self.threads, card: self.card.clone() }
    }

    /// What a heter worker's stage runs on: this executor's card, or the one that the launcher gave the process
    /// for a stage of GPUs.
    fn stage_on(&self) -> EngineResult<RunsOn> {
        let mut on = self.own_stage();
        if on.card.is_none() && !card::is_host_forced() {
            let environment = jobs::environment()?;
            if environment.heter.device.as_deref() == Some("gpu") {
                let number = environment.selected_gpu().map_err(Error::remote)?.unwrap_or(0);
                on.card = Some(card::open_inside(number)?);
            }
        }
        Ok(on)
    }

    /// Connects the engine to the other ranks of a collective job.
    fn join(
        &self,
        engine: &mut Engine,
        program: &Program,
        scope: &bireme_engine::Scope,
    ) -> EngineResult<()> {
        let copy = program.handle.read(Clone::clone);
        self.join_rings(engine, ranks::rings_for(&copy, scope)?)?;
        if let Some(seen) = lock(&self.seen).get_mut(&program.handle.id()) {
            seen.is_connected = true;
        }
        Ok(())
    }

    /// Has the engine ask these ranks, which agree on how their cards exchange.
    fn join_rings(&self, engine: &mut Engine, wanted: Arc<Rings>) -> EngineResult<()> {
        wanted.agree(self.card.as_ref(), jobs::environment()?.rpc.road)?;
        let mut rings = lock(&self.rings);
        if !rings.as_ref().is_some_and(|rings| Arc::ptr_eq(rings, &wanted)) {
            engine.join(Some(Arc::clone(&wanted) as Arc<dyn Collective>));
            *rings = Some(wanted);
        }
        Ok(())
    }

    /// Connects the engine to what `program` needs; its servers and its other ranks.
    #[expect(clippy::type_complexity, reason = "two options, used once")]
    fn meet(
        &self,
        engine: &mut Engine,
        program: &Program,
        scope: &bireme_engine::Scope,
    ) -> EngineResult<(Option<Arc<Worker>>, Option<Arc<Rings>>)> {
        let seen = self.seen(program)?;
        match seen.kind {
            Kind::Local => return Ok((None, None)),
            Kind::Trainer if !seen.is_connected => self.connect(engine, program, scope)?,
            Kind::Rank if !seen.is_connected => self.join(engine, program, scope)?,
            Kind::Trainer | Kind::Rank => {}
            Kind::Server | Kind::HeterWorker | Kind::Stages => {
                let problem = "this program is not trained on a dataset: run it";
                return Err(Error::Kernel { problem: problem.to_owned() });
            }
        }
        let worker = lock(&self.worker).clone().filter(|_| matches!(seen.kind, Kind::Trainer));
        let has_ranks = match seen.kind {
            Kind::Trainer => program.handle.read(gpubox::is_trainer),
            _ => matches!(seen.kind, Kind::Rank),
        };
        let rings = lock(&self.rings).clone().filter(|_| has_ranks);
        Ok((worker, rings))
    }

    /// That this thread is not inside a step of this executor already.
    fn check_free(&self) -> PyResult<()> {
        if *lock(&self.owner) == Some(thread::current().id()) {
            return Err(unavailable(
                "this executor is running: a signal handler cannot use it meanwhile",
            ));
        }
        Ok(())
    }

    /// Whether this executor was asked to look for NaN and infinity, or all are.
    fn checks_finite(&self) -> bool {
        self.check_finite || session().checks_finite()
    }

    /// Works with the engine, which no other thread uses meanwhile; `None` once closed.
    fn with_engine<T>(
        &self,
        work: impl FnOnce(&mut Option<Engine>) -> EngineResult<T>,
    ) -> EngineResult<T> {
        let mut engine = lock(&self.engine);
        *lock(&self.owner) = Some(thread::current().id());
        // Whatever becomes of the work, a panic too, the engine is free again afterwards.
        let _free = Free(&self.owner);
        work(&mut engine)
    }
}

/// Forgets the owner when it goes.
struct Free<'a>(&'a Mutex<Option<ThreadId>>);

impl Drop for Free<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// More threads than this rarely pay for the rows of one batch.
const MOST_THREADS: usize = 16;

/// What users say about threads: ours first, then Paddle's, then what they say to every numeric
/// library.
const THREAD_VARIABLES: [&str; 3] =
    ["BIREME_NUM_THREADS", "FLAGS_paddle_num_threads", "OMP_NUM_THREADS"];

/// The threads of an executor that was told nothing: what the environment says, or one for each
/// core that this process may use.
fn default_threads() -> PyResult<usize> {
    for name in THREAD_VARIABLES {
        let Ok(value) = std::env::var(name) else { continue };
        return match value.trim().parse() {
            Ok(threads) if threads > 0 => Ok(threads),
            _ => Err(PyValueError::new_err(format!(
                "the environment variable `{name}` is `{value}`: it must be a number from 1 on"
            ))),
        };
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    Ok(cores.min(MOST_THREADS))
}

/// The thread that imported the module: where Python handles signals.
static MAIN: OnceLock<ThreadId> = OnceLock::new();

/// Remembers the main thread.
pub(crate) fn note_main_thread() {
    MAIN.get_or_init(|| thread::current().id());
}

/// Whether a signal has come whose exception the main thread has not raised yet: the threads that
/// work for it meanwhile must end their waits.
static STOP: AtomicBool = AtomicBool::new(false);

/// Whether a signal (Ctrl-C) has come whose handler raises; the exception waits for [`enter`].
pub(crate) fn signalled() -> bool {
    // Signals belong to the main thread; others must not touch an interpreter that may be ending.
    if STOP.load(Ordering::Relaxed)
        || MAIN.get().is_some_and(|main| *main != thread::current().id())
    {
        return STOP.load(Ordering::Relaxed);
    }
    Python::attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(raised) => {
            raised.restore(py);
            STOP.store(true, Ordering::Relaxed);
            true
        }
    })
}

/// What a signal handler, or a hook, raised inside the engine; whoever takes it raises it.
pub(crate) fn take_raised(py: Python<'_>) -> Option<PyErr> {
    let raised = PyErr::take(py)?;
    if MAIN.get().is_some_and(|main| *main == thread::current().id()) {
        STOP.store(false, Ordering::Relaxed);
    }
    Some(raised)
}

/// How many threads go over a dataset, and over how many each splits its batches.
fn division(program: &ir::Program, threads: usize, infer: bool) -> (usize, usize) {
    // What learns nothing has no gradients that grow old.
    match infer && !is_in_step(program) {
        true => divide(&program.clone_for_test(), threads, false),
        false => divide(program, threads, false),
    }
}

/// How the steps of a program, which wait for those of other trainers, come to the same number;
/// `None` where they do not wait, or nobody else is there.
fn agreement(
    program: &ir::Program,
    worker: Option<Arc<Worker>>,
    rings: Option<Arc<Rings>>,
) -> Option<Box<Agree>> {
    if !is_in_step(program) {
        return None;
    }
    let lost = |error: Error| match error {
        Error::Interrupted => bireme_data::Error::Interrupted,
        other => bireme_data::Error::Peers(other.to_string()),
    };
    if let Some(worker) = worker.filter(|worker| worker.config().trainers > 1) {
        return Some(Box::new(move |mine| {
            let least = worker.all_reduce(&[f64::from(u8::from(mine))], Reduce::Min);
            Ok(least.map_err(|error| lost(jobs::to_engine(error.into())))?[0] > 0.0)
        }));
    }
    let ranks = rings.map(|rings| rings.group(0)).filter(|ranks| ranks.size() > 1)?;
    Some(Box::new(move |mine| {
        let mut least = [f64::from(u8::from(mine))];
        let reduced = ranks.all_reduce(&mut least, group::Reduce::Min);
        reduced.map_err(|error| lost(jobs::to_engine(error.into())))?;
        Ok(least[0] > 0.0)
    }))
}

/// Says whether something is so for all trainers; all ask together.
type Agree = dyn Fn(bool) -> bireme_data::Result<bool> + Send + Sync;

/// A value that is fed.
enum Feed {
    Array(Array),
    Ragged(Arc<Tensor>),
    /// An eager tensor of the executor's own card.
    OnCard(Arc<Held>),
}

impl Feed {
    /// The value on the host; one of a card is copied.
    fn tensor(&self) -> EngineResult<&Tensor> {
        match self {
            Feed::Array(array) => Ok(array.tensor()),
            Feed::Ragged(tensor) => Ok(tensor),
            Feed::OnCard(held) => held.host()?.tensor(),
        }
    }

    fn shape(&self) -> (DType, Dims) {
        match self {
            Feed::Array(array) => (array.tensor().dtype(), array.tensor().dims()),
            Feed::Ragged(tensor) => (tensor.dtype(), tensor.dims()),
            Feed::OnCard(held) => held.shape(),
        }
    }

    /// As a step takes it: where it is.
    fn where_it_is(&self) -> EngineResult<StepFeed<'_>> {
        if let Feed::OnCard(held) = self
            && let Some(DeviceValue::Tensor(tensor)) = held.known_on_card()
        {
            return Ok(StepFeed::Card(tensor));
        }
        self.tensor().map(StepFeed::Host)
    }
}

#[pymethods]
impl Executor {
    /// An executor for `place`, which splits batches over `threads` threads; see [`default_threads`].
    #[new]
    #[pyo3(signature = (place=None, threads=None, check_finite=false))]
    fn new(
        place: Option<&Bound<'_, PyAny>>,
        threads: Option<usize>,
        check_finite: bool,
    ) -> PyResult<Executor> {
        let card = match device_of(place)? {
            Current::Host => None,
            Current::Card(card) => Some(card),
        };
        let engine = match &card {
            None => Engine::new(Place::Cpu).map_err(to_py)?,
            Some(card) => Engine::on(Arc::clone(card)).on_memory(Arc::new(card::say_at_home)),
        };
        let threads = threads.map_or_else(default_threads, Ok)?;
        let engine = engine.threads(threads).interrupt(Arc::new(signalled));
        Ok(Executor {
            check_finite,
            engine: Mutex::new(Some(engine)),
            owner: Mutex::new(None),
            seen: Mutex::default(),
            worker: Mutex::new(None),
            threads,
            rings: Mutex::new(None),
            card,
        })
    }

    /// Runs `program` once and returns what `fetch` names.
    #[pyo3(signature = (program, feed=None, fetch=None, scope=None, return_numpy=true))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        program: &Bound<'py, Program>,
        feed: Option<&Bound<'py, PyDict>>,
        fetch: Option<&Bound<'py, PyAny>>,
        scope: Option<&Bound<'py, Scope>>,
        return_numpy: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        self.check_free()?;
        let program = program.get();
        let (names, feeds) = feeds(program, feed, self.card.as_ref())?;
        let fetches: Vec<String> = match fetch {
            Some(fetch) => fetch.try_iter()?.map(|one| name_of(&one?)).collect::<PyResult<_>>()?,
            None => Vec::new(),
        };
        let scope = match scope {
            Some(scope) => scope.get().engine.clone(),
            None => context::global_scope(py)?.get().engine.clone(),
        };
        let step = |engine: &mut Option<Engine>| {
            let Some(engine) = engine.as_mut() else { return Ok(None) };
            engine.set_check_finite(self.checks_finite());
            let seen = self.seen(program)?;
            match seen {
                Seen { kind: Kind::Stages, .. } => {
                    return self.run_stages(engine, program, &scope, (&names, &feeds), &fetches);
                }
                Seen { kind: Kind::HeterWorker, .. } => {
                    let stage = program.handle.read(Clone::clone);
                    jobs::serve_heter(&stage, &scope, &self.stage_on()?, &signalled)?;
                    return Ok(Some(Vec::new()));
                }
                Seen { kind: Kind::Local, .. } | Seen { is_connected: true, .. } => {}
                Seen { kind: Kind::Trainer, .. } => self.connect(engine, program, &scope)?,
                Seen { kind: Kind::Rank, .. } => self.join(engine, program, &scope)?,
                Seen { kind: Kind::Server, .. } => {
                    let server = program.handle.read(Clone::clone);
                    jobs::serve(&server, &scope, None, &[], &signalled)?;
                    return Ok(Some(Vec::new()));
                }
            }
            let fetched = run_step(engine, program, &scope, (&names, &feeds), &fetches)?;
            if seen.is_training {
                let rows = feeds.first().and_then(|feed| feed.shape().1.first().copied());
                jobs::report_step(rows.map(|rows| rows as u64));
            }
            Ok(Some(fetched))
        };
        let fetched = enter(py, || self.with_engine(step))?;
        let Some(fetched) = fetched else {
            return Err(PyRuntimeError::new_err("this executor is closed: make a new one"));
        };
        let values = fetches.iter().zip(fetched).map(|(name, tensor)| {
            if return_numpy {
                fetched_array(py, name, tensor)
            } else {
                LoDTensor::own(tensor).into_py_any(py)
            }
        });
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }

    /// Trains `program` on all of a dataset, or evaluates it; the settings are those of
    /// `dataset_train`. Returns what was done.
    #[pyo3(signature = (program, dataset, settings, scope=None))]
    fn train_from_dataset<'py>(
        &self,
        py: Python<'py>,
        program: &Bound<'py, Program>,
        dataset: &Bound<'py, PyAny>,
        settings: &Bound<'py, PyDict>,
        scope: Option<&Bound<'py, Scope>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.check_free()?;
        let (program, data, told) = (program.get(), Data::of(dataset)?, Told::read(settings)?);
        let scope = match scope {
            Some(scope) => scope.get().engine.clone(),
            None => context::global_scope(py)?.get().engine.clone(),
        };
        let connected = enter(py, || {
            self.with_engine(|engine| {
                let Some(engine) = engine.as_mut() else { return Ok(None) };
                self.meet(engine, program, &scope).map(Some)
            })
        })?;
        let Some((worker, rings)) = connected else {
            return Err(PyRuntimeError::new_err("this executor is closed: make a new one"));
        };
        if let Some(warning) = too_many_threads(told.threads) {
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &CString::new(warning)?, 1)?;
        }
        // A copy: whoever edits the program meanwhile does not change what is trained.
        let copy = program.handle.read(Clone::clone);
        let summary = enter_data(py, || {
            let after = |done: &Progress<'_>| told.after(done, &scope);
            let (threads, split) = match &self.card {
                // A card trains one batch after the other, with all of itself.
                Some(_) => (1, self.threads),
                None => division(&copy, told.threads, told.infer),
            };
            let mut training = Training::new(&copy, &scope, data.slots());
            training.fetches = &told.fetches;
            training.private = &told.private;
            training.split = split;
            training.device.clone_from(&self.card);
            training.on_memory = self.card.as_ref().map(|_| Arc::new(card::say_at_home) as _);
            training.warn = Some(&card::warn);
            training.infer = told.infer;
            training.check_finite = self.checks_finite();
            training.sequence = Some(program.handle.sequence());
            training.remote = worker.clone().map(|worker| worker as Arc<dyn Remote>);
            training.collective = rings.clone().map(|rings| rings as Arc<dyn Collective>);
            training.interrupt = Some(&signalled);
            training.on_batch = Some(&after);
            // Nothing is sent when nothing is learned.
            let agree = agreement(&copy, worker.clone(), rings).filter(|_| !told.infer);
            if agree.is_some() && data.draws_files() {
                let problem = "the steps of this job wait for each other, so that a worker that \
                               draws more files than the others has nobody to train them with: \
                               leave out `share_files`, and give each worker its own files \
                               (`fleet.util.get_file_shard`)";
                return Err(bireme_data::Error::Settings(problem.to_owned()));
            }
            training.agree = agree.as_deref().map(|agree| agree as _);
            let summary = gpubox::train(&training, &data, threads, worker.as_ref())?;
            told.end(&summary)?;
            Ok(summary)
        })?;
        let done = PyDict::new(py);
        done.set_item("batches", summary.batches)?;
        done.set_item("samples", summary.samples)?;
        done.set_item("seconds", summary.seconds)?;
        done.set_item("wait_for_data_seconds", summary.wait_for_data_seconds)?;
        Ok(done)
    }

    /// Tells all parameter servers of this process that it has finished, whichever executors and
    /// fleets it had.
    #[staticmethod]
    fn _complete(py: Python<'_>) -> PyResult<()> {
        enter(py, jobs::complete_all)
    }

    /// Tells parameter servers, and other ranks, that this process ends with an error.
    #[staticmethod]
    fn _quit(py: Python<'_>, problem: &str) -> PyResult<()> {
        enter(py, || {
            jobs::quit(problem);
            ranks::quit(problem);
            Ok(())
        })
    }

    /// Lets go of the compiled programs; the executor cannot run any more. A trainer tells its
    /// servers that it has finished.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_free()?;
        let worker = lock(&self.worker).take();
        // Others in this process may go on with the ranks.
        drop(lock(&self.rings).take());
        let closed = enter(py, || self.with_engine(|engine| Ok(engine.take())))?;
        drop(closed);
        match worker {
            Some(worker) => enter(py, || jobs::complete(&worker)),
            None => Ok(()),
        }
    }
}

/// One step of a program that this process runs itself.
fn run_step(
    engine: &mut Engine,
    program: &Program,
    scope: &bireme_engine::Scope,
    (names, feeds): (&[String], &[Feed]),
    fetches: &[String],
) -> EngineResult<Vec<Tensor>> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let fetches: Vec<&str> = fetches.iter().map(String::as_str).collect();
    let step = engine
        .step(&program.handle, scope, &names, &fetches)
        .map_err(|error| explain(error, program))?;
    let converted = converted(step.feeds(), feeds)?;
    let pairs = feeds.iter().zip(&converted);
    if feeds.iter().any(|feed| matches!(feed, Feed::OnCard(_))) {
        let fed = pairs.map(|(feed, converted)| match converted {
            Some(converted) => Ok(StepFeed::Host(converted)),
            None => feed.where_it_is(),
        });
        step.run_fed(&fed.collect::<EngineResult<Vec<_>>>()?)?;
    } else {
        let fed = pairs.map(|(feed, converted)| match converted {
            Some(converted) => Ok(converted),
            None => feed.tensor(),
        });
        step.run(&fed.collect::<EngineResult<Vec<_>>>()?)?;
    }
    Ok((0..fetches.len()).map(|at| step.take_fetched(at)).collect())
}

/// Names and values of what is fed.
fn feeds(
    program: &Program,
    feed: Option<&Bound<'_, PyDict>>,
    card: Option<&Arc<dyn Device>>,
) -> PyResult<(Vec<String>, Vec<Feed>)> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (name, value) in feed.into_iter().flat_map(|feed| feed.iter()) {
        let name = match name.cast::<PyString>() {
            Ok(name) => name.to_str()?.to_owned(),
            Err(_) => name_of(&name)?,
        };
        let one = fed(program, &name, &value, card);
        values.push(one.map_err(|error| in_feed(value.py(), &name, error))?);
        names.push(name);
    }
    Ok((names, values))
}

fn in_feed(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    PyErr::from_type(error.get_type(py), format!("feed `{name}`: {}", error.value(py)))
}

/// One value: an array as it is; lists and numbers, as in Paddle, in the variable's type.
fn fed(
    program: &Program,
    name: &str,
    value: &Bound<'_, PyAny>,
    card: Option<&Arc<dyn Device>>,
) -> PyResult<Feed> {
    if let (Some(card), Ok(tensor)) = (card, value.cast::<EagerTensor>()) {
        let held = tensor.get().inner.held();
        let is_here = |value: &DeviceValue| {
            matches!(value, DeviceValue::Tensor(_)) && value.device().place() == card.place()
        };
        if held.home().is_some() && held.known_on_card().is_some_and(is_here) {
            return Ok(Feed::OnCard(held));
        }
    }
    if let Ok(tensor) = value.cast::<LoDTensor>() {
        return Ok(Feed::Ragged(tensor.get().tensor()?));
    }
    if value.is_instance_of::<numpy::PyUntypedArray>() {
        return Array::new(value).map(Feed::Array);
    }
    let numpy = value.py().import("numpy")?;
    if value.hasattr("__array__")? {
        return Array::new(&numpy.call_method1("asarray", (value,))?).map(Feed::Array);
    }
    let dtype = program.handle.read(|inner| inner.global().var(name).map(|var| var.dtype));
    let array = numpy.call_method1("asarray", (value,)).map_err(|error| {
        PyTypeError::new_err(format!(
            "cannot be made an array ({}): rows of different lengths go into a `LoDTensor`",
            error.value(value.py())
        ))
    })?;
    let dtype = dtype.map_or("float32", DType::name);
    Array::new(&array.call_method1("astype", (dtype,))?).map(Feed::Array)
}

/// Copies of integer feeds in the other width, for variables that are not checked: Paddle's
/// kernels take both there.
fn converted(vars: &[Var], feeds: &[Feed]) -> EngineResult<Vec<Option<Tensor>>> {
    let convert = |(var, feed): (&Var, &Feed)| {
        if var.need_check_feed {
            return Ok(None);
        }
        match (feed.shape().0, var.dtype) {
            (DType::I32, DType::I64) => {
                let tensor = feed.tensor()?;
                let wide: Vec<i64> =
                    tensor.as_slice::<i32>()?.iter().map(|v| (*v).into()).collect();
                let wide = Tensor::from_slice(tensor.dims(), &wide)?;
                wide.with_lod(tensor.lod()).map(Some)
            }
            (DType::I64, DType::I32) => {
                let tensor = feed.tensor()?;
                let narrow = tensor.as_slice::<i64>()?.iter().map(|v| i32::try_from(*v));
                let narrow: Vec<i32> =
                    narrow.collect::<Result<_, _>>().map_err(|_| Error::Feed {
                        var: var.name.clone(),
                        problem: "a value does not fit int32".to_owned(),
                    })?;
                let narrow = Tensor::from_slice(tensor.dims(), &narrow)?;
                narrow.with_lod(tensor.lod()).map(Some)
            }
            _ => Ok(None),
        }
    };
    vars.iter().zip(feeds).map(convert).collect()
}

/// Adds what is spelled alike to an error about a feed that the program does not have.
fn explain(error: Error, program: &Program) -> Error {
    let Error::Feed { var, problem } = error else { return error };
    let near = program.handle.read(|inner| {
        if inner.global().var(&var).is_some() {
            return Vec::new();
        }
        ir::nearest(&var, inner.global().vars.keys().map(String::as_str))
    });
    Error::Feed { problem: format!("{problem}{}", ir::did_you_mean(&near)), var }
}
