//! This process's part of a job: its connections to parameter servers, which every executor of the
//! process shares, and what a script said about them.

use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use bireme_data::{Contents, KeyedPart};
use bireme_engine::device::Device;
use bireme_engine::{Error, Result, Scope};
use bireme_fleet::collective::is_collective;
use bireme_fleet::comm::Interrupt;
use bireme_fleet::gpubox::Passes;
use bireme_fleet::ps::heter::{self, HeterTrainer, RunsOn};
use bireme_fleet::ps::worker::{Worker, WorkerConfig};
use bireme_fleet::{
    Environment, Reporter, Spent, Tuning, checkpoint_to_load, connect_stages, connect_trainer,
    last_checkpoint, log_to_stderr, remember_checkpoint, serve_program, serve_stage,
};
use bireme_ir::{OpRole, Program};
use pyo3::prelude::*;

use crate::card;
use crate::executor::signalled;
use crate::{gpubox, ranks};

/// What a program needs of other processes.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// Nothing.
    Local,
    /// A trainer's program: somebody must answer its ops.
    Trainer,
    /// A server's program: it is served, not run.
    Server,
    /// A trainer's program whose later stages heter workers run.
    Stages,
    /// A heter worker's program: it is served, not run.
    HeterWorker,
    /// A rank's program: its ops ask the other ranks.
    Rank,
}

/// What `program` needs of other processes.
pub(crate) fn kind_of(program: &Program) -> Result<Kind> {
    if program.global().ops.iter().any(|op| op.kind == "listen_and_serv") {
        return Ok(Kind::Server);
    }
    if heter::is_heter_worker(program) {
        return Ok(Kind::HeterWorker);
    }
    if heter::is_heter_trainer(program) {
        return Ok(Kind::Stages);
    }
    let config = WorkerConfig::from_program(program).map_err(Error::remote)?;
    Ok(match config {
        Some(_) => Kind::Trainer,
        None if is_collective(program) => Kind::Rank,
        None => Kind::Local,
    })
}

/// A trainer's connection.
struct Link {
    worker: Arc<Worker>,
    /// What its queues and exchanges belong to: a geo trainer's last step is flushed from there.
    program: Arc<Program>,
    scope: Scope,
    /// The heter workers that run a part of its program.
    stages: Option<Arc<Mutex<HeterTrainer>>>,
    /// What a GPUBox trainer holds.
    passes: Option<Arc<Mutex<Passes>>>,
    /// The parts of a pass that was begun and is not trained yet.
    parts: Option<(Vec<KeyedPart>, Contents)>,
}

#[derive(Default)]
struct Jobs {
    tuning: Tuning,
    links: Vec<Link>,
}

/// Paddle keeps this for the process; nothing below the Python module does.
static JOBS: Mutex<Option<Jobs>> = Mutex::new(None);

/// Held while a trainer connects.
static CONNECTING: Mutex<()> = Mutex::new(());

fn jobs() -> MutexGuard<'static, Option<Jobs>> {
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    jobs.get_or_insert_default();
    jobs
}

/// This process's way to its launcher.
static REPORTER: LazyLock<Reporter> = LazyLock::new(|| {
    Environment::read().map_or_else(|_| Reporter::default(), |e| Reporter::new(&e))
});

/// Counts a training step, for the launcher.
pub(crate) fn report_step(samples: Option<u64>) {
    REPORTER.steps(1, samples, || {
        let links = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = links.iter().flat_map(|jobs| &jobs.links).last().map(|link| &*link.worker);
        Spent::of(worker, card::any_open().as_deref())
    });
}

/// Whether a run of `program` is a training step.
pub(crate) fn is_training(program: &Program) -> bool {
    program.global().ops.iter().any(|op| op.op_role().0 & 0xff == OpRole::BACKWARD.0)
}

/// Remembers a complete checkpoint of the servers, for a restart.
pub(crate) fn saved(folder: &str) {
    if let Ok(environment) = Environment::read() {
        remember_checkpoint(&environment, Path::new(folder));
    }
}

/// What a server loads: the folder that its script names, or the last checkpoint after a restart.
pub(crate) fn to_load(folder: Option<String>) -> Result<Option<String>> {
    let environment = environment()?;
    let found = checkpoint_to_load(&environment, folder.as_deref().map(Path::new));
    Ok(found.and_then(|path| path.into_os_string().into_string().ok()))
}

/// The folder of the last complete checkpoint of the servers.
pub(crate) fn last_saved() -> Option<String> {
    let last = last_checkpoint(&Environment::read().ok()?)?;
    last.into_os_string().into_string().ok()
}

/// Remembers what a script says about connections that are made from now on.
pub(crate) fn tune(tuning: Tuning) {
    jobs().get_or_insert_default().tuning = tuning;
}

/// The connection of a trainer's program, made if there is none yet.
pub(crate) fn worker_for(program: &Program, scope: &Scope) -> Result<Arc<Worker>> {
    let config = WorkerConfig::from_program(program).map_err(Error::remote)?;
    let config = config.ok_or_else(|| Error::remote("the program talks to no servers"))?;
    let find = || {
        let mut jobs = jobs();
        let links = &mut jobs.get_or_insert_default().links;
        let link = links.iter_mut().find(|link| {
            let known = link.worker.config();
            (known.trainer, known.trainers, known.mode)
                == (config.trainer, config.trainers, config.mode)
                && known.endpoints == config.endpoints
        })?;
        // The startup program connects first; the main one is what a geo trainer flushes.
        if exchanges(program) && !exchanges(&link.program) {
            (link.program, link.scope) = (Arc::new(program.clone()), scope.clone());
        }
        Some(Arc::clone(&link.worker))
    };
    if let Some(worker) = find() {
        return Ok(worker);
    }
    // One at a time: a trainer that joins twice looks to its servers like one that was restarted.
    let _connecting = CONNECTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(worker) = find() {
        return Ok(worker);
    }
    // Not under the lock: a server may not be there for minutes.
    let tuning = jobs().get_or_insert_default().tuning.clone();
    let environment = environment()?;
    let tuning = Tuning { interrupt: Some(Interrupt::new(signalled)), ..tuning };
    REPORTER.mode(config.mode);
    let worker = connect_trainer(program, &environment, &tuning).map_err(to_engine)?;
    let program = Arc::new(program.clone());
    let link = Link {
        worker: Arc::clone(&worker),
        program,
        scope: scope.clone(),
        stages: None,
        passes: None,
        parts: None,
    };
    jobs().get_or_insert_default().links.push(link);
    Ok(worker)
}

/// What a GPUBox trainer holds, taken over from the servers when it is first asked for; `None` for
/// other trainers.
pub(crate) fn passes_for(
    program: &Program,
    scope: &Scope,
    worker: &Arc<Worker>,
    card: Option<&Arc<dyn Device>>,
) -> Result<Option<Arc<Mutex<Passes>>>> {
    if let Some(passes) = passes_of(worker) {
        return Ok(Some(passes));
    }
    let budget = environment()?.gpubox_memory;
    let group = match gpubox::is_trainer(program) {
        true => ranks::of_trainers(worker)?.map(|rings| rings.group(0)),
        false => None,
    };
    let made = Passes::open(program, worker, scope, card, budget, group.as_ref());
    let made = made.map_err(to_engine)?;
    let made = made.map(|passes| Arc::new(Mutex::new(passes)));
    let mut jobs = jobs();
    let links = &mut jobs.get_or_insert_default().links;
    if let Some(link) = links.iter_mut().find(|link| Arc::ptr_eq(&link.worker, worker)) {
        link.passes.clone_from(&made);
    }
    Ok(made)
}

/// Remembers the parts of a pass that was begun, and what the dataset held then.
pub(crate) fn keep_parts(worker: &Arc<Worker>, parts: Vec<KeyedPart>, of: Contents) {
    let mut jobs = jobs();
    let links = &mut jobs.get_or_insert_default().links;
    if let Some(link) = links.iter_mut().find(|link| Arc::ptr_eq(&link.worker, worker)) {
        link.parts = Some((parts, of));
    }
}

/// The parts of a pass that was begun, once.
pub(crate) fn take_parts(worker: &Arc<Worker>) -> Option<(Vec<KeyedPart>, Contents)> {
    let mut jobs = jobs();
    let links = &mut jobs.get_or_insert_default().links;
    links.iter_mut().find(|link| Arc::ptr_eq(&link.worker, worker))?.parts.take()
}

/// What a GPUBox trainer holds, if it does already.
pub(crate) fn passes_of(worker: &Arc<Worker>) -> Option<Arc<Mutex<Passes>>> {
    let mut jobs = jobs();
    let links = &mut jobs.get_or_insert_default().links;
    links.iter().find(|link| Arc::ptr_eq(&link.worker, worker))?.passes.clone()
}

/// Runs `work` with the heter workers of a trainer's program, connected if they are not yet.
pub(crate) fn with_stages<T>(
    program: impl FnOnce() -> Program,
    scope: &Scope,
    worker: &Arc<Worker>,
    on: &RunsOn,
    work: impl FnOnce(&mut HeterTrainer) -> bireme_fleet::ps::Result<T>,
) -> Result<T> {
    let of_link = |link: &&mut Link| Arc::ptr_eq(&link.worker, worker);
    let known = jobs()
        .get_or_insert_default()
        .links
        .iter_mut()
        .find(of_link)
        .and_then(|link| link.stages.clone());
    let stages = match known {
        Some(stages) => stages,
        None => {
            let tuning = Tuning { interrupt: Some(Interrupt::new(signalled)), ..Tuning::default() };
            let (environment, own) = (environment()?, Arc::clone(worker));
            let made = connect_stages(&program(), scope, own, &environment, &tuning, on);
            let made = Arc::new(Mutex::new(made.map_err(to_engine)?));
            if let Some(link) = jobs().get_or_insert_default().links.iter_mut().find(of_link) {
                link.stages = Some(Arc::clone(&made));
            }
            made
        }
    };
    let mut stages = stages.lock().unwrap_or_else(PoisonError::into_inner);
    work(&mut stages).map_err(|error| match error {
        bireme_fleet::ps::Error::Interrupted => Error::Interrupted,
        bireme_fleet::ps::Error::Engine(error) => error,
        other => Error::remote(other),
    })
}

/// Serves a heter worker's program until its trainers have finished.
pub(crate) fn serve_heter(
    program: &Program,
    scope: &Scope,
    on: &RunsOn,
    interrupt: &dyn Fn() -> bool,
) -> Result<()> {
    let worker = worker_for(program, scope)?;
    let environment = environment()?;
    if let Some(card) = &on.card {
        print_line(&format!("Heter worker runs its stage on {}", card.describe()));
    }
    let served =
        serve_stage(program, scope, Arc::clone(&worker), &environment, on, interrupt, |endpoint| {
            announce("Heter worker", endpoint)
        });
    served.map_err(to_engine)?;
    // It has told its servers itself when the last trainer had finished.
    jobs().get_or_insert_default().links.retain(|link| !Arc::ptr_eq(&link.worker, &worker));
    Ok(())
}

/// The environment of a process that takes part in a job; from now on it logs.
pub(crate) fn environment() -> Result<Environment> {
    let environment = Environment::read().map_err(Error::remote)?;
    log_to_stderr(environment.rpc.log.as_deref());
    Ok(environment)
}

/// Whether a program is a geo trainer's main program.
fn exchanges(program: &Program) -> bool {
    program.global().ops.iter().any(|op| op.kind == "geo_exchange")
}

/// The engine's error for one of a job; an interrupt stays one.
pub(crate) fn to_engine(error: bireme_fleet::Error) -> Error {
    match error {
        bireme_fleet::Error::Group(bireme_fleet::group::Error::Interrupted { .. }) => {
            Error::Interrupted
        }
        bireme_fleet::Error::Ps(bireme_fleet::ps::Error::Interrupted) => Error::Interrupted,
        other => Error::remote(other),
    }
}

/// Tells the servers that this trainer has finished; a connection that is not known is over.
pub(crate) fn complete(worker: &Arc<Worker>) -> Result<()> {
    let link = {
        let mut jobs = jobs();
        let links = &mut jobs.get_or_insert_default().links;
        let at = links.iter().position(|link| Arc::ptr_eq(&link.worker, worker));
        at.map(|at| links.remove(at))
    };
    link.map_or(Ok(()), end)
}

/// [`complete`] for every connection that is left; the first error counts, and the others are told
/// nevertheless.
pub(crate) fn complete_all() -> Result<()> {
    let links = std::mem::take(&mut jobs().get_or_insert_default().links);
    let mut ended = Ok(());
    for link in links {
        ended = ended.and(end(link));
    }
    ended
}

fn end(link: Link) -> Result<()> {
    let worker = &link.worker;
    let staged = match &link.stages {
        Some(stages) => stages.lock().unwrap_or_else(PoisonError::into_inner).complete(),
        None => Ok(()),
    };
    let flushed = worker.flush_geo(&link.program, &link.scope);
    let given_back = flush_passes(link.passes.as_ref());
    // After an error too the servers are told, so that nobody waits for this trainer.
    let completed = worker.complete();
    staged.and(flushed).and(completed).map_err(Error::remote).and(given_back)
}

/// Gives servers what a GPUBox trainer has trained.
pub(crate) fn flush_passes(passes: Option<&Arc<Mutex<Passes>>>) -> Result<()> {
    match passes {
        Some(passes) => {
            let mut passes = passes.lock().unwrap_or_else(PoisonError::into_inner);
            passes.flush().map_err(to_engine)
        }
        None => Ok(()),
    }
}

/// Tells the servers of every connection that this process ends with an error.
pub(crate) fn quit(problem: &str) {
    let links = std::mem::take(&mut jobs().get_or_insert_default().links);
    for link in links {
        if let Some(stages) = &link.stages {
            stages.lock().unwrap_or_else(PoisonError::into_inner).quit(problem);
        }
        link.worker.quit(problem);
    }
}

/// Lets the servers have everything that this trainer has learned.
pub(crate) fn flush(worker: &Arc<Worker>) -> Result<()> {
    let link = jobs()
        .get_or_insert_default()
        .links
        .iter()
        .find(|link| Arc::ptr_eq(&link.worker, worker))
        .map(|link| (Arc::clone(&link.program), link.scope.clone()));
    flush_passes(passes_of(worker).as_ref())?;
    worker.flush().map_err(Error::remote)?;
    match link {
        Some((program, scope)) => worker.flush_geo(&program, &scope).map_err(Error::remote),
        None => Ok(()),
    }
}

/// Serves a server's program until its trainers have finished.
pub(crate) fn serve(
    program: &Program,
    scope: &Scope,
    checkpoint: Option<&str>,
    only: &[String],
    interrupt: &dyn Fn() -> bool,
) -> Result<()> {
    let environment = environment()?;
    let folder = checkpoint.map(std::path::Path::new);
    let served =
        serve_program(program, scope, &environment, (folder, only), interrupt, |endpoint| {
            announce("Server", endpoint);
        });
    served.map_err(to_engine)
}

/// Says where the server listens, as Paddle does; launchers and people wait for this line.
fn announce(who: &str, endpoint: &str) {
    print_line(&format!("{who} listening on {endpoint}"));
}

fn print_line(text: &str) {
    Python::attach(|py| {
        let print = || -> PyResult<()> {
            let out = py.import("sys")?.getattr("stdout")?;
            out.call_method1("write", (format!("{text}\n"),))?;
            out.call_method0("flush")?;
            Ok(())
        };
        // A script may have closed its output; it is served all the same.
        let _ = print();
    });
}
