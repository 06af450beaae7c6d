//! GPUBox from Python: a pass is what a dataset holds in memory when it is trained, or when
//! `PSGPU.begin_pass` is called before; a `QueueDataset` is a stream, which has no passes.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bireme_data::train::train as train_batches;
use bireme_data::{Batches, Contents, Error, KeyedPart, Result, Summary, Training};
use bireme_engine::Scope;
use bireme_engine::device::Device;
use bireme_fleet::gpubox::{PassPlan, PassRun, PassTable, Passes, StreamReport};
use bireme_fleet::ps::worker::Worker;
use bireme_ir::Program;
use pyo3::prelude::*;

use crate::dataset::Data;
use crate::jobs;

/// Between two lines about a stream.
const TELL: Duration = Duration::from_secs(60);

/// Whether a program is a GPUBox trainer's.
pub(crate) fn is_trainer(program: &Program) -> bool {
    program.global().ops.iter().any(|op| op.kind == "pass_table")
}

/// A table of a GPUBox trainer.
pub(crate) fn table_of(program: &Program, table: &str) -> Option<PassTable> {
    let plan = PassPlan::of(program).ok().flatten()?;
    plan.tables.into_iter().find(|known| known.reference.name == table)
}

/// Begins a pass with what `data` holds.
pub(crate) fn begin(
    data: &Data<'_>,
    program: &Program,
    scope: &Scope,
    worker: &Arc<Worker>,
    card: Option<&Arc<dyn Device>>,
) -> Result<()> {
    let passes = passes(program, scope, worker, card)?;
    let mut passes = passes.lock().unwrap_or_else(PoisonError::into_inner);
    let parts = parts(data, &passes)?;
    if let Some(first) = parts.first() {
        passes.begin(first).map_err(jobs::to_engine)?;
    }
    jobs::keep_parts(worker, parts, contents(data));
    Ok(())
}

/// Ends a pass: the servers are given what was trained. Returns what the pass was, in words.
pub(crate) fn end(worker: &Arc<Worker>) -> bireme_engine::Result<String> {
    let Some(passes) = jobs::passes_of(worker) else { return Ok(String::new()) };
    let mut passes = passes.lock().unwrap_or_else(PoisonError::into_inner);
    passes.end().map_err(jobs::to_engine)?;
    passes.flush().map_err(jobs::to_engine)?;
    // A stream was reported when it ended.
    let report = match passes.take_stream_report() {
        Some(_) => String::new(),
        None => passes.report().to_string(),
    };
    if passes.ranks() > 1 {
        // Whoever saves now saves what all have trained.
        worker.barrier().map_err(|error| jobs::to_engine(error.into()))?;
    }
    Ok(report)
}

/// Trains over what `data` holds. A GPUBox trainer does it in one pass, or in several where its rows
/// would not fit.
pub(crate) fn train(
    training: &Training<'_>,
    data: &Data<'_>,
    threads: usize,
    worker: Option<&Arc<Worker>>,
) -> Result<Summary> {
    let Some(worker) = worker.filter(|_| is_trainer(training.program)) else {
        return train_batches(training, data.open(threads)?);
    };
    let passes = passes(training.program, training.scope, worker, training.device.as_ref())?;
    if let Data::Queue(_) = data {
        return train_stream(training, data, &passes, worker);
    }
    // Not while steps run: what a script calls meanwhile may look at the passes, too.
    let lock = || passes.lock().unwrap_or_else(PoisonError::into_inner);
    let (begun, ranks) = (jobs::take_parts(worker), lock().ranks());
    let begun = begun.filter(|(parts, of)| is_same(parts, of, &contents(data), ranks));
    let is_begun = lock().all_say(begun.is_some()).map_err(jobs::to_engine)?;
    let parts = match begun.filter(|_| is_begun) {
        Some((parts, _)) => parts,
        None => parts(data, &lock())?,
    };
    let (mut all, mut first) = (Summary::default(), 0);
    for (at, part) in parts.iter().enumerate() {
        if at > 0 || !is_begun {
            lock().begin(part).map_err(jobs::to_engine)?;
        }
        let range = first..first + part.batches;
        first = range.end;
        let range = (parts.len() > 1 || ranks > 1).then_some(range);
        let (run, batches) = opened(training, data, &mut lock(), range)?;
        let program = run.program.as_ref().unwrap_or(training.program);
        let training = Training { program, ..training.clone() };
        let summary = train_batches(&training, vec![batches])?;
        if !training.infer {
            lock().trained(summary.batches);
        }
        all.batches += summary.batches;
        all.samples += summary.samples;
        all.seconds += summary.seconds;
        all.wait_for_data_seconds += summary.wait_for_data_seconds;
    }
    Ok(all)
}

/// Trains over data that is read meanwhile.
fn train_stream(
    training: &Training<'_>,
    data: &Data<'_>,
    passes: &Mutex<Passes>,
    worker: &Arc<Worker>,
) -> Result<Summary> {
    let lock = || passes.lock().unwrap_or_else(PoisonError::into_inner);
    if lock().ranks() > 1 {
        let problem = "from Python, data that is read while it is trained has one GPUBox trainer, and \
                       there are several: hold it in memory (`InMemoryDataset`), start one \
                       (`--worker_num=1`), or train from YAML (`bireme train -m`)";
        return Err(jobs::to_engine(bireme_fleet::Error::Config(problem.to_owned())).into());
    }
    // Rows of a pass that was begun and not trained are given up.
    jobs::take_parts(worker);
    let stream = lock().stream().map_err(jobs::to_engine)?.telling(TELL, Arc::new(log));
    let batches = data.open(1)?.into_iter();
    let batches = batches.map(|batches| stream.over(batches, training.slots, !training.infer));
    let summary = train_batches(training, batches.collect::<Result<Vec<_>>>()?)?;
    let mut passes = lock();
    if !training.infer {
        passes.trained(summary.batches);
    }
    if let Some(report) = passes.take_stream_report() {
        log(&report);
    }
    Ok(summary)
}

/// Says what a stream was, where `PSGPU` says what a pass was.
fn log(report: &StreamReport) {
    let text = report.to_string();
    Python::attach(|py| -> PyResult<()> {
        let logger = py.import("logging")?.call_method1("getLogger", ("bireme.gpubox",))?;
        logger.call_method1("info", (text,)).map(drop)
    })
    // A training does not end because a handler of log lines fails.
    .ok();
}

/// How a part of what `data` holds is trained, and its batches.
fn opened(
    training: &Training<'_>,
    data: &Data<'_>,
    passes: &mut Passes,
    batches: Option<Range<u64>>,
) -> Result<(PassRun, Box<dyn Batches>)> {
    let Data::Memory(memory) = data else { return Err(not_in_memory()) };
    let memory = memory.lock();
    let run = passes.run_over(training.program, training.fetches, &memory, batches);
    let run = run.map_err(jobs::to_engine)?;
    let batches = run.open(&memory, 0).map_err(jobs::to_engine)?;
    Ok((run, batches))
}

/// What `data` holds now.
fn contents(data: &Data<'_>) -> Contents {
    match data {
        Data::Memory(memory) => memory.lock().contents(),
        Data::Queue(_) => Contents::default(),
    }
}

/// Whether the parts of a pass are still those of a dataset: one that was cut in parts, or whose rows
/// lie with several ranks, which have room for what its batches name, is in the same order, too.
fn is_same(parts: &[KeyedPart], of: &Contents, now: &Contents, ranks: usize) -> bool {
    of == now || parts.len() == 1 && ranks == 1 && of.has_samples_of(now)
}

fn passes(
    program: &Program,
    scope: &Scope,
    worker: &Arc<Worker>,
    card: Option<&Arc<dyn Device>>,
) -> Result<Arc<Mutex<Passes>>> {
    let passes = jobs::passes_for(program, scope, worker, card)?;
    passes.ok_or_else(|| {
        Error::Settings(
            "the program has no passes: set `use_ps_gpu` in `a_sync_configs`".to_owned(),
        )
    })
}

/// The parts of what `data` holds, each of which is a pass.
fn parts(data: &Data<'_>, passes: &Passes) -> Result<Vec<KeyedPart>> {
    let Data::Memory(memory) = data else { return Err(not_in_memory()) };
    let memory = memory.lock();
    passes.parts(&memory, memory.settings().readers)
}

fn not_in_memory() -> Error {
    Error::Settings(
        "GPUBox looks for the keys of a pass before it trains: use an `InMemoryDataset`, and call \
         `load_into_memory`"
            .to_owned(),
    )
}
