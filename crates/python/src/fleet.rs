//! `Fleet`: one role of a job, as `bireme.distributed.fleet` and `fluid.incubate.fleet` use it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bireme_engine::remote::{Piece, Remote, RowSpread, TableRef};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Error, Executor, Place};
use bireme_fleet::environment::CommunicatorFlags;
use bireme_fleet::gpubox::Passes;
use bireme_fleet::ps::message::Format;
use bireme_fleet::ps::worker::Worker;
use bireme_fleet::{Mode, Tuning};
use bireme_ir::{Attr, Op, Program as Ir};
use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::card;
use crate::dataset::Data;
use crate::error::{enter, enter_data};
use crate::executor::signalled;
use crate::gpubox;
use crate::jobs;
use crate::kwargs::Kwargs;
use crate::lod_tensor::fetched_array;
use crate::program::Program;
use crate::scope::Scope;

/// One process's part of a job with parameter servers.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct Fleet {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    trainer: Option<Ir>,
    /// The trainer's program with the parts of all stages, where heter workers run some.
    whole: Option<Ir>,
    server: Option<Ir>,
    server_startup: Option<Ir>,
    checkpoint: Option<String>,
    /// Tables to load; all when there are none.
    only: Vec<String>,
    worker: Option<Arc<Worker>>,
}

impl Fleet {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn worker(&self) -> PyResult<Arc<Worker>> {
        let worker = self.state().worker.clone();
        worker.ok_or_else(|| PyRuntimeError::new_err("call `init_worker` before"))
    }

    /// Asks the servers, with the interpreter free.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&Arc<Worker>) -> bireme_fleet::ps::Result<T> + Send,
    ) -> PyResult<T> {
        let worker = self.worker()?;
        enter(py, || {
            jobs::flush(&worker)?;
            ask(&worker).map_err(Error::remote)
        })
    }

    /// The name of table number `table`.
    fn table_name(&self, py: Python<'_>, table: Option<usize>) -> PyResult<Option<String>> {
        let Some(table) = table else { return Ok(None) };
        let names = self.tables(py)?;
        let name = names.get(table).cloned().ok_or_else(|| {
            PyValueError::new_err(format!(
                "there is no table {table}: the job has {} (`stat()` lists them)",
                names.len()
            ))
        });
        name.map(Some)
    }

    /// Servers may have other rows now than a GPUBox trainer that holds some.
    fn refresh_passes(&self, py: Python<'_>) -> PyResult<()> {
        self.with_passes(py, Passes::refresh)
    }

    /// Does something with the passes of a GPUBox trainer; nothing for others.
    fn with_passes(
        &self,
        py: Python<'_>,
        act: fn(&mut Passes) -> bireme_fleet::Result<()>,
    ) -> PyResult<()> {
        let Some(passes) = jobs::passes_of(&self.worker()?) else { return Ok(()) };
        enter(py, || {
            let mut passes = passes.lock().unwrap_or_else(PoisonError::into_inner);
            act(&mut passes).map_err(jobs::to_engine)
        })
    }

    /// Names of the tables in the order of their numbers.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let stats = self.ask(py, |worker| worker.table_stats())?;
        Ok(stats.into_iter().map(|table| table.name).collect())
    }
}

#[pymethods]
impl Fleet {
    /// A role of a job, which its programs tell; `settings` is what the strategy says about the
    /// exchange.
    #[new]
    fn new(settings: &Bound<'_, PyDict>) -> PyResult<Fleet> {
        jobs::tune(tuning(settings)?);
        Ok(Fleet { state: Mutex::default() })
    }

    /// The programs of this role; None for those of the other. A trainer's startup program is the
    /// executor's to run.
    fn set_programs(
        &self,
        trainer_main: Option<&Bound<'_, Program>>,
        server_main: Option<&Bound<'_, Program>>,
        server_startup: Option<&Bound<'_, Program>>,
    ) {
        let copy = |program: Option<&Bound<'_, Program>>| {
            program.map(|program| program.get().handle.read(Clone::clone))
        };
        let mut state = self.state();
        (state.trainer, state.server) = (copy(trainer_main), copy(server_main));
        state.server_startup = copy(server_startup);
    }

    /// The trainer's program before it was cut into stages: it names all parameters.
    fn set_whole(&self, program: &Bound<'_, Program>) {
        self.state().whole = Some(program.get().handle.read(Clone::clone));
    }

    /// Gives this server's parameters their first values, in `scope`; a checkpoint is read later,
    /// when the server has made its tables.
    #[pyo3(signature = (scope, dirname=None, var_names=None))]
    fn init_server(
        &self,
        py: Python<'_>,
        scope: &Bound<'_, Scope>,
        dirname: Option<String>,
        var_names: Option<Vec<String>>,
    ) -> PyResult<()> {
        if var_names.is_some() && dirname.is_none() {
            return Err(PyValueError::new_err("`var_names` needs a `dirname` to load from"));
        }
        let startup = self.state().server_startup.clone();
        let startup = startup.ok_or_else(|| PyRuntimeError::new_err("this is no server"))?;
        let scope = scope.get().engine.clone();
        enter(py, || Executor::new(Place::Cpu)?.with_scope(scope).run(&startup, &[], &[]))?;
        let dirname = enter(py, || jobs::to_load(dirname))?;
        let mut state = self.state();
        (state.checkpoint, state.only) = (dirname, var_names.unwrap_or_default());
        Ok(())
    }

    /// Serves until the trainers have finished.
    fn run_server(&self, py: Python<'_>, scope: &Bound<'_, Scope>) -> PyResult<()> {
        let (program, checkpoint, only) = {
            let state = self.state();
            (state.server.clone(), state.checkpoint.clone(), state.only.clone())
        };
        let program = program.ok_or_else(|| PyRuntimeError::new_err("this is no server"))?;
        let scope = scope.get().engine.clone();
        enter(py, || jobs::serve(&program, &scope, checkpoint.as_deref(), &only, &signalled))
    }

    /// Connects this trainer to its servers.
    fn init_worker(
        &self,
        py: Python<'_>,
        program: &Bound<'_, Program>,
        scope: &Bound<'_, Scope>,
    ) -> PyResult<()> {
        let program = program.get().handle.read(Clone::clone);
        let scope = scope.get().engine.clone();
        let worker = enter(py, || jobs::worker_for(&program, &scope))?;
        let mut state = self.state();
        (state.trainer, state.worker) = (Some(program), Some(worker));
        Ok(())
    }

    /// Tells the servers that this trainer has finished.
    fn stop_worker(&self, py: Python<'_>) -> PyResult<()> {
        let worker = self.state().worker.take();
        match worker {
            Some(worker) => enter(py, || jobs::complete(&worker)),
            None => Ok(()),
        }
    }

    /// Waits for all members of a group.
    fn barrier(&self, py: Python<'_>, group: &str) -> PyResult<()> {
        only_workers(group)?;
        self.ask(py, |worker| worker.barrier())
    }

    /// What each member of a group brings.
    fn all_gather<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        group: &str,
    ) -> PyResult<Bound<'py, PyList>> {
        only_workers(group)?;
        let parts = self.ask(py, |worker| worker.all_gather(data))?;
        PyList::new(py, parts.iter().map(|part| PyBytes::new(py, part)))
    }

    /// Lets the servers write a checkpoint.
    fn save(
        &self,
        py: Python<'_>,
        dirname: &str,
        mode: u32,
        table: Option<usize>,
        format: &str,
    ) -> PyResult<()> {
        let table = self.table_name(py, table)?;
        let format = match format {
            "native" => Format::Native,
            "paddle_text" => Format::Text,
            other => return Err(PyValueError::new_err(format!("no format `{other}`"))),
        };
        self.ask(py, |worker| worker.save(dirname, table.as_deref(), mode, format))?;
        if mode != 0 {
            self.with_passes(py, Passes::reload)?;
        }
        // Of one table, or of what changed, a job cannot go on.
        if table.is_none() && mode == 0 {
            jobs::saved(dirname);
        }
        Ok(())
    }

    /// Lets the servers read a checkpoint.
    fn load(&self, py: Python<'_>, dirname: &str, mode: u32, table: Option<usize>) -> PyResult<()> {
        let table = self.table_name(py, table)?;
        self.ask(py, |worker| worker.load(dirname, table.as_deref(), mode))?;
        self.refresh_passes(py)
    }

    /// Takes over what the servers have loaded: a trainer's copies are those of before.
    fn refresh(&self, py: Python<'_>, scope: &Bound<'_, Scope>) -> PyResult<()> {
        let program = self.state().trainer.clone();
        let program = program.ok_or_else(|| PyRuntimeError::new_err("this is no worker"))?;
        let (worker, scope) = (self.worker()?, scope.get().engine.clone());
        enter(py, || {
            worker.forget();
            // A geo trainer's copies are its own; its next exchange corrects them.
            if worker.config().mode == Mode::Geo {
                return Ok(());
            }
            for (name, tensor) in gather(&worker, &program).map_err(Error::remote)? {
                let fits = scope.get(&name).is_ok_and(|mine| mine.dims() == tensor.dims());
                if fits {
                    scope.try_set(&name, &tensor)?;
                }
            }
            Ok(())
        })
    }

    /// Ages tables and drops what is worth nothing.
    fn shrink(&self, py: Python<'_>, table: Option<usize>) -> PyResult<()> {
        let table = self.table_name(py, table)?;
        self.ask(py, |worker| worker.shrink(table.as_deref()))?;
        self.refresh_passes(py)
    }

    /// Empties tables.
    fn clear(&self, py: Python<'_>, table: Option<usize>) -> PyResult<()> {
        let table = self.table_name(py, table)?;
        self.ask(py, |worker| worker.clear(table.as_deref()))?;
        self.refresh_passes(py)
    }

    /// Begins a GPUBox pass: rows for the keys of what a dataset holds in memory, on a card
    /// by its number.
    fn begin_pass(
        &self,
        py: Python<'_>,
        dataset: &Bound<'_, PyAny>,
        device: Option<u32>,
        scope: &Bound<'_, Scope>,
    ) -> PyResult<()> {
        let (data, worker) = (Data::of(dataset)?, self.worker()?);
        let card = device.map(|device| card::asked_for(py, device)).transpose()?.flatten();
        let program = self.state().trainer.clone();
        let program = program.ok_or_else(|| PyRuntimeError::new_err("this is no worker"))?;
        let scope = scope.get().engine.clone();
        enter_data(py, || gpubox::begin(&data, &program, &scope, &worker, card.as_ref()))
    }

    /// Ends a GPUBox pass: servers are given what was trained. What the pass was, in words.
    fn end_pass(&self, py: Python<'_>) -> PyResult<String> {
        let worker = self.worker()?;
        enter(py, || gpubox::end(&worker))
    }

    /// The tables: id, name, rows and bytes of each.
    fn stat<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let stats = self.ask(py, |worker| worker.table_stats())?;
        let list = PyList::empty(py);
        for (id, table) in stats.into_iter().enumerate() {
            let row = PyDict::new(py);
            row.set_item("id", id)?;
            row.set_item("name", table.name)?;
            row.set_item("rows", table.rows)?;
            row.set_item("bytes", table.bytes)?;
            list.append(row)?;
        }
        Ok(list)
    }

    /// Whole parameters, put together from the servers' pieces; keyed tables are not among them.
    fn dense<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state();
        let program = state.whole.as_ref().or(state.trainer.as_ref()).cloned();
        drop(state);
        let program = program.ok_or_else(|| PyRuntimeError::new_err("this is no worker"))?;
        let whole = self.ask(py, |worker| gather(worker, &program))?;
        let found = PyDict::new(py);
        for (name, tensor) in whole {
            let array = fetched_array(py, &name, tensor)?;
            found.set_item(name, array)?;
        }
        Ok(found)
    }

    /// Rows of a keyed table.
    fn pull_rows<'py>(
        &self,
        py: Python<'py>,
        table: &str,
        ids: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let program = self.state().trainer.clone();
        let reference = program.as_ref().and_then(|program| table_of(program, table));
        let reference = reference.ok_or_else(|| {
            PyValueError::new_err(format!("the program looks nothing up in a table `{table}`"))
        })?;
        let ids = ids.to_vec()?;
        let mut rows = vec![0.0f32; ids.len() * reference.width];
        let worker = self.worker()?;
        match program.as_ref().and_then(|program| gpubox::table_of(program, table)) {
            // Rows that nobody has trained are not made for being looked at.
            Some(table) => self.ask(py, |worker| {
                let width = table.record_width();
                let keys: Vec<u64> = ids.iter().map(|id| *id as u64).collect();
                let mut records = vec![0.0; keys.len() * width];
                worker.pull_records(&reference, width, &keys, &mut records)?;
                let records = records.chunks_exact(width);
                for (row, record) in rows.chunks_exact_mut(reference.width).zip(records) {
                    table.pull(record, row);
                }
                Ok(())
            })?,
            None => enter(py, || worker.pull_rows(&reference, &[&ids], &mut [&mut rows]))?,
        }
        numpy::PyArray1::from_vec(py, rows).reshape([ids.len(), reference.width])
    }
}

fn only_workers(group: &str) -> PyResult<()> {
    if group == "worker" {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "workers meet on server 0; `{group}` has members that cannot: use \"worker\""
    )))
}

/// What the strategy says, by the names that `runtime.py` documents.
fn tuning(settings: &Bound<'_, PyDict>) -> PyResult<Tuning> {
    let mut given = Kwargs::new("fleet settings".to_owned(), settings)?;
    let mut tuning = Tuning::default();
    // Python waits for ports.
    let _ = given.object("launch_barrier")?;
    let is_hybrid = given.maybe::<String>("mode")?.as_deref() == Some("hybrid");
    let _ = given.object("lr_decay_steps")?;
    tuning.geo_steps = given.maybe::<u32>("k_steps")?.filter(|steps| *steps > 0);
    // A bound of hybrid mode; async trainers have their queues.
    tuning.staleness = given.maybe::<u32>("staleness")?.filter(|steps| *steps > 0 && is_hybrid);
    tuning.deadline = given.maybe::<u64>("rpc_deadline")?.map(Duration::from_millis);
    tuning.retries = given.maybe("rpc_retry_times")?;
    if let Some(knobs) = given.object("communicator")? {
        tuning.communicator = communicator(knobs.cast::<PyDict>()?)?;
    }
    given.end()?;
    Ok(tuning)
}

fn communicator(knobs: &Bound<'_, PyDict>) -> PyResult<CommunicatorFlags> {
    let plain = PyDict::new(knobs.py());
    for (name, value) in knobs.iter() {
        let name = name.extract::<String>()?;
        plain.set_item(name.trim_start_matches("communicator_"), value)?;
    }
    let mut given = Kwargs::new("communicator settings".to_owned(), &plain)?;
    let switch = |name: &str, given: &mut Kwargs<'_>| -> PyResult<Option<bool>> {
        Ok(given.maybe::<i64>(name)?.map(|value| value != 0))
    };
    let flags = CommunicatorFlags {
        independent_recv_thread: switch("independent_recv_thread", &mut given)?,
        is_sgd_optimizer: switch("is_sgd_optimizer", &mut given)?,
        look_ahead: switch("look_ahead", &mut given)?,
        check_finite: switch("check_finite", &mut given)?,
        max_merge_var_num: given.maybe("max_merge_var_num")?,
        send_queue_size: given.maybe("send_queue_size")?,
        min_send_grad_num_before_recv: given.maybe("min_send_grad_num_before_recv")?,
        thread_pool_size: given.maybe("thread_pool_size")?,
        send_wait_times: given.maybe("send_wait_times")?,
    };
    given.end()?;
    Ok(flags)
}

// --- What a trainer's program says about where things are ----------------------------------------

fn strings<'a>(op: &'a Op, name: &str) -> &'a [String] {
    match op.attrs.get(name) {
        Some(Attr::Strings(values)) => values,
        _ => &[],
    }
}

fn longs(op: &Op, name: &str) -> Vec<i64> {
    match op.attrs.get(name) {
        Some(Attr::Longs(values)) => values.clone(),
        Some(Attr::Ints(values)) => values.iter().map(|value| i64::from(*value)).collect(),
        _ => Vec::new(),
    }
}

fn pieces(names: &[String], endpoints: &[String]) -> Vec<Piece> {
    let pair = |(name, endpoint): (&String, &String)| Piece {
        name: name.clone(),
        endpoint: endpoint.clone(),
    };
    names.iter().zip(endpoints).map(pair).collect()
}

/// The pieces of every parameter that lives on servers, by its name.
fn placed(program: &Ir) -> BTreeMap<String, Vec<Piece>> {
    let mut placed = BTreeMap::new();
    for op in &program.global().ops {
        match op.kind.as_str() {
            "recv" => {
                let own = pieces(strings(op, "recv_varnames"), strings(op, "epmap"));
                if let Some(name) = strings(op, "varnames").first() {
                    placed.insert(name.clone(), own);
                }
            }
            "distributed_lookup_table" if !longs(op, "height_sections").is_empty() => {
                let own = pieces(strings(op, "table_names"), strings(op, "endpoints"));
                if let Some(name) = op.inputs_of("W").first() {
                    placed.insert(name.clone(), own);
                }
            }
            "pass_dense" => {
                let all = op.inputs_of("X").iter().zip(strings(op, "epmap"));
                let is_parameter = |name: &String| {
                    program.global().var(name).is_some_and(bireme_ir::Var::is_parameter)
                };
                for (name, endpoint) in all.filter(|(name, _)| is_parameter(name)) {
                    let own = Piece { name: name.clone(), endpoint: endpoint.clone() };
                    placed.insert(name.clone(), vec![own]);
                }
            }
            "geo_exchange" => {
                let all = pieces(strings(op, "piece_names"), strings(op, "epmap"));
                let mut rest = all.into_iter();
                for (name, count) in op.inputs_of("Param").iter().zip(longs(op, "pieces_per_param"))
                {
                    let own = rest.by_ref().take(usize::try_from(count).unwrap_or(0)).collect();
                    placed.insert(name.clone(), own);
                }
            }
            _ => {}
        }
    }
    placed
}

/// Whole parameters from their pieces, which are consecutive elements.
fn gather(worker: &Worker, program: &Ir) -> bireme_fleet::ps::Result<Vec<(String, Tensor)>> {
    let mut found = Vec::new();
    for (name, pieces) in placed(program) {
        let Some(var) = program.global().var(&name) else { continue };
        let dims: Vec<usize> =
            var.shape.iter().map(|size| usize::try_from(*size).unwrap_or(0)).collect();
        let mut whole = Tensor::zeros(var.dtype, bireme_engine::tensor::Dims::new(&dims));
        let mut bytes = whole.as_mut_bytes();
        for piece in worker.values(&pieces)? {
            let from = piece.as_bytes();
            if from.len() > bytes.len() {
                return Err(bireme_fleet::ps::Error::Request(format!(
                    "the pieces of `{name}` are larger than it"
                )));
            }
            let (now, later) = bytes.split_at_mut(from.len());
            now.copy_from_slice(from);
            bytes = later;
        }
        found.push((name, whole));
    }
    Ok(found)
}

/// The keyed or sliced table `name` as the program's lookups describe it.
fn table_of(program: &Ir, name: &str) -> Option<TableRef> {
    let op = program.global().ops.iter().find(|op| {
        matches!(op.kind.as_str(), "distributed_lookup_table" | "pass_table")
            && op.inputs_of("W").first().is_some_and(|w| w == name)
    })?;
    let width = usize::try_from(*program.global().var(name)?.shape.get(1)?).ok()?;
    let sections: Vec<u64> =
        longs(op, "height_sections").iter().map(|rows| rows.unsigned_abs()).collect();
    let shards = match op.attrs.get("shard_num") {
        Some(Attr::Long(shards)) => shards.unsigned_abs(),
        _ => 1000,
    };
    let spread = match sections.is_empty() {
        true => RowSpread::Keys { shards },
        false => RowSpread::Sections(sections),
    };
    Some(TableRef {
        name: name.to_owned(),
        width,
        padding: None,
        spread,
        endpoints: strings(op, "endpoints").to_vec(),
        names: match strings(op, "table_names") {
            // A GPUBox trainer's table has one name everywhere.
            [] => vec![name.to_owned(); strings(op, "endpoints").len()],
            names => names.to_vec(),
        },
    })
}
