//! `Transpiler`: splits a program into those of a job's roles.

use std::sync::{Mutex, PoisonError};

use bireme_fleet::transpiler::{
    CollectiveMode, Config, Distribution, Heter, Place, SplitMethod, Transpiled,
    Transpiler as Inner,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::kwargs::Kwargs;
use crate::program::Program;

/// Splits programs as its settings say.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct Transpiler {
    inner: Inner,
    split: Mutex<Option<Transpiled>>,
}

fn invalid(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

impl Transpiler {
    fn with_split<T>(
        &self,
        look: impl FnOnce(&Transpiled) -> bireme_fleet::transpiler::Result<T>,
    ) -> PyResult<T> {
        let split = self.split.lock().unwrap_or_else(PoisonError::into_inner);
        let split = split.as_ref();
        let split = split.ok_or_else(|| PyRuntimeError::new_err("call `transpile` before"))?;
        look(split).map_err(invalid)
    }
}

#[pymethods]
impl Transpiler {
    /// A transpiler; `settings` are the attributes of `DistributeTranspilerConfig`.
    #[new]
    fn new(settings: &Bound<'_, PyDict>) -> PyResult<Transpiler> {
        let inner = Inner::new(config(settings)?).map_err(invalid)?;
        Ok(Transpiler { inner, split: Mutex::new(None) })
    }

    /// Splits `main` and `startup`, which stay as they are, for parameter servers.
    #[expect(clippy::too_many_arguments, reason = "as in Paddle")]
    fn transpile(
        &self,
        py: Python<'_>,
        trainer_id: usize,
        main: &Bound<'_, Program>,
        startup: &Bound<'_, Program>,
        pservers: Vec<String>,
        trainers: usize,
        sync_mode: bool,
    ) -> PyResult<()> {
        let main = main.get().handle.read(Clone::clone);
        let startup = startup.get().handle.read(Clone::clone);
        let split = py.detach(|| {
            self.inner.transpile(trainer_id, &main, &startup, &pservers, trainers, sync_mode)
        });
        let split = split.map_err(invalid)?;
        *self.split.lock().unwrap_or_else(PoisonError::into_inner) = Some(split);
        Ok(())
    }

    /// As `transpile`, with a part of the program run by heter workers: `stages` are their
    /// endpoints, stage by stage; the programs are those of number `index` in `stage`, 0 for the
    /// trainers'.
    #[expect(clippy::too_many_arguments, reason = "those of `transpile`, and the heter workers")]
    fn transpile_heter(
        &self,
        py: Python<'_>,
        stage: usize,
        index: usize,
        main: &Bound<'_, Program>,
        startup: &Bound<'_, Program>,
        pservers: Vec<String>,
        trainers: usize,
        stages: Vec<Vec<String>>,
        micro_batches: usize,
        sync_mode: bool,
    ) -> PyResult<()> {
        let main = main.get().handle.read(Clone::clone);
        let startup = startup.get().handle.read(Clone::clone);
        let (place, heter) = (Place { stage, index }, Heter { stages, micro_batches });
        let split = py.detach(|| {
            self.inner
                .transpile_heter(place, &main, &startup, &pservers, trainers, &heter, sync_mode)
        });
        let split = split.map_err(invalid)?;
        *self.split.lock().unwrap_or_else(PoisonError::into_inner) = Some(split);
        Ok(())
    }

    /// The programs of a GPUBox job: trainers that hold the rows of a pass, and servers with the tables.
    fn transpile_gpubox(
        &self,
        py: Python<'_>,
        trainer_id: usize,
        main: &Bound<'_, Program>,
        startup: &Bound<'_, Program>,
        pservers: Vec<String>,
        trainers: usize,
    ) -> PyResult<()> {
        let main = main.get().handle.read(Clone::clone);
        let startup = startup.get().handle.read(Clone::clone);
        let split = py.detach(|| {
            self.inner.transpile_gpubox((trainer_id, trainers), &main, &startup, &pservers)
        });
        let split = split.map_err(invalid)?;
        *self.split.lock().unwrap_or_else(PoisonError::into_inner) = Some(split);
        Ok(())
    }

    /// The trainer's program with the parts of all stages.
    fn whole_program(&self) -> PyResult<Program> {
        self.with_split(|split| Ok(Program::of(split.whole_program().clone())))
    }

    /// Rewrites `main` and `startup` for trainers that reduce among themselves.
    fn transpile_collective(
        &self,
        trainer_id: usize,
        main: &Bound<'_, Program>,
        startup: &Bound<'_, Program>,
        endpoints: Vec<String>,
        current_endpoint: &str,
    ) -> PyResult<()> {
        let (main, startup) = (&main.get().handle, &startup.get().handle);
        let (program, first) = (main.read(Clone::clone), startup.read(Clone::clone));
        let (program, first) = self
            .inner
            .transpile_collective(trainer_id, &program, &first, &endpoints, current_endpoint)
            .map_err(invalid)?;
        main.edit(|inner| *inner = program);
        startup.edit(|inner| *inner = first);
        Ok(())
    }

    /// What a trainer runs each step.
    fn trainer_program(&self) -> PyResult<Program> {
        self.with_split(|split| Ok(Program::of(split.trainer_program().clone())))
    }

    /// What a trainer runs first.
    fn trainer_startup(&self) -> PyResult<Program> {
        self.with_split(|split| Ok(Program::of(split.trainer_startup().clone())))
    }

    /// What the server at `endpoint` runs.
    fn pserver_program(&self, endpoint: &str) -> PyResult<Program> {
        self.with_split(|split| split.pserver_program(endpoint).map(Program::of))
    }

    /// What the server at `endpoint` runs first.
    fn startup_program(&self, endpoint: &str) -> PyResult<Program> {
        self.with_split(|split| split.startup_program(endpoint).map(Program::of))
    }

    /// The placement in words.
    fn log(&self) -> PyResult<String> {
        self.with_split(|split| Ok(split.log()))
    }
}

/// The settings of Paddle's `DistributeTranspilerConfig`.
fn config(settings: &Bound<'_, PyDict>) -> PyResult<Config> {
    let mut given = Kwargs::new("transpiler settings".to_owned(), settings)?;
    let mut config = Config::new();
    config.slice_var_up = given.or("slice_var_up", config.slice_var_up)?;
    config.split_method = match given.or("split_method", String::new())?.as_str() {
        "" | "RoundRobin" => SplitMethod::RoundRobin,
        "HashName" => SplitMethod::HashName,
        other => return Err(invalid(format!("`split_method` is `{other}`"))),
    };
    config.min_block_size = given.or("min_block_size", config.min_block_size)?;
    config.enable_dc_asgd = given.or("enable_dc_asgd", config.enable_dc_asgd)?;
    config.dc_asgd_lambda = given.or("dc_asgd_lambda", config.dc_asgd_lambda)?;
    config.mode = match given.or("mode", String::new())?.as_str() {
        "" | "pserver" => Distribution::Pserver,
        "nccl2" => Distribution::Nccl2,
        "collective" => Distribution::Collective,
        other => return Err(invalid(format!("`mode` is `{other}`"))),
    };
    config.print_log = given.or("print_log", config.print_log)?;
    config.wait_port = given.or("wait_port", config.wait_port)?;
    let sync_mode = given.or("sync_mode", config.sync_mode)?;
    let runtime_split = given.or("runtime_split_send_recv", false)?;
    config.set_sync_mode(Some(sync_mode)).map_err(invalid)?;
    config.set_runtime_split_send_recv(Some(runtime_split)).map_err(invalid)?;
    config.half_async = given.or("half_async", config.half_async)?;
    config.completely_not_async = given.or("completely_not_async", config.completely_not_async)?;
    config.geo_sgd_mode = given.or("geo_sgd_mode", config.geo_sgd_mode)?;
    config.geo_sgd_need_push_nums =
        given.or("geo_sgd_need_push_nums", config.geo_sgd_need_push_nums)?;
    config.hybrid = given.or("hybrid", config.hybrid)?;
    config.staleness = given.or("staleness", config.staleness)?;
    config.learning_rate_from_trainer =
        given.or("learning_rate_from_trainer", config.learning_rate_from_trainer)?;
    config.nccl_comm_num = given.or("nccl_comm_num", config.nccl_comm_num)?;
    config.use_hierarchical_allreduce =
        given.or("use_hierarchical_allreduce", config.use_hierarchical_allreduce)?;
    config.hierarchical_allreduce_inter_nranks = given
        .or("hierarchical_allreduce_inter_nranks", config.hierarchical_allreduce_inter_nranks)?;
    config.collective_mode = match given.maybe::<String>("collective_mode")?.as_deref() {
        None => None,
        Some("grad_allreduce") => Some(CollectiveMode::GradAllReduce),
        Some("local_sgd") => Some(CollectiveMode::LocalSgd),
        Some("single_process_multi_thread") => Some(CollectiveMode::SingleProcessMultiThread),
        Some(other) => return Err(invalid(format!("invalid collective_mode: {other}"))),
    };
    config.nrings = given.or("nrings", config.nrings)?;
    config.shard_num = given.or("shard_num", config.shard_num)?;
    config.rpc_send_thread_num = given.or("rpc_send_thread_num", config.rpc_send_thread_num)?;
    config.rpc_get_thread_num = given.or("rpc_get_thread_num", config.rpc_get_thread_num)?;
    config.rpc_prefetch_thread_num =
        given.or("rpc_prefetch_thread_num", config.rpc_prefetch_thread_num)?;
    given.end()?;
    Ok(config)
}
