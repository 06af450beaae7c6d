//! GPUBox from Python: a pass is what a dataset holds in memory when it is trained, or when
//! `PSGPU.begin_pass` is called before.

use std::sync::{Arc, Mutex, PoisonError};

use bireme_data::train::train as train_batches;
use bireme_data::{Batch, Batches, Closer, Error, KeyedPart, Result, Summary, Training};
use bireme_engine::Scope;
use bireme_engine::device::Device;
use bireme_fleet::gpubox::{PassPlan, Passes};
use bireme_fleet::ps::worker::Worker;
use bireme_ir::Program;

use crate::dataset::Data;
use crate::jobs;

/// Whether a program is a GPUBox trainer's.
pub(crate) fn is_trainer(program: &Program) -> bool {
    program.global().ops.iter().any(|op| op.kind == "pass_table")
}

/// Numbers in a record of a table of a GPUBox trainer.
pub(crate) fn record_width(program: &Program, table: &str) -> Option<usize> {
    let plan = PassPlan::of(program).ok().flatten()?;
    let known = plan.tables.iter().find(|known| known.reference.name == table)?;
    Some(known.record_width())
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
        passes.begin(&first.keys, first.ids).map_err(jobs::to_engine)?;
    }
    jobs::keep_parts(worker, parts);
    Ok(())
}

/// Ends a pass: the servers are given what was trained. Returns what the pass was, in words.
pub(crate) fn end(worker: &Arc<Worker>) -> bireme_engine::Result<String> {
    let Some(passes) = jobs::passes_of(worker) else { return Ok(String::new()) };
    let mut passes = passes.lock().unwrap_or_else(PoisonError::into_inner);
    passes.end();
    passes.flush().map_err(jobs::to_engine)?;
    Ok(passes.report().to_string())
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
    // Not while steps run: what a script calls meanwhile may look at the passes, too.
    let lock = || passes.lock().unwrap_or_else(PoisonError::into_inner);
    let (parts, is_begun) = match jobs::take_parts(worker) {
        Some(parts) => (parts, true),
        None => (parts(data, &lock())?, false),
    };
    let batches = data.open(1)?.pop();
    let batches =
        batches.ok_or_else(|| Error::Settings("the dataset has no batches".to_owned()))?;
    let batches = Arc::new(Mutex::new(batches));
    let mut all = Summary::default();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 || !is_begun {
            lock().begin(&part.keys, part.ids).map_err(jobs::to_engine)?;
        }
        let portion = Portion { batches: Arc::clone(&batches), left: part.batches };
        let summary = train_batches(training, vec![Box::new(portion)])?;
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
    let Data::Memory(memory) = data else {
        return Err(Error::Settings(
            "GPUBox looks for the keys of a pass before it trains: use an `InMemoryDataset`, and call \
             `load_into_memory`"
                .to_owned(),
        ));
    };
    let (groups, bytes) = (passes.plan().groups(), passes.plan().bytes_of_rows());
    let memory = memory.lock();
    let all = memory.keys(&groups, memory.settings().readers)?;
    let needed: usize = all.keys.iter().zip(&bytes).map(|(keys, bytes)| keys.len() * bytes).sum();
    match passes.budget().filter(|most| needed > *most) {
        Some(most) => memory.parts(&groups, &bytes, most),
        None => Ok(vec![all]),
    }
}

/// So many of the batches that are left.
struct Portion {
    batches: Arc<Mutex<Box<dyn Batches>>>,
    left: u64,
}

impl Batches for Portion {
    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).next(batch)
    }

    fn skip(&mut self, batches: u64) -> Result<u64> {
        let count = batches.min(self.left);
        self.left -= count;
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).skip(count)
    }

    fn closer(&self) -> Closer {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).closer()
    }
}
