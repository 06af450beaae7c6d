//! GPUBox as a process of a job: the trainer's passes, and, where nobody serves the tables, a server
//! inside the trainer's own process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bireme_comm::{Memory, Settings};
use bireme_engine::Executor;
use bireme_engine::tensor::Tensor;
use bireme_ir::{Attr, Op, Program, Var};
use bireme_ps::server::{Folders, PsServer};
use bireme_ps::worker::Worker;

use super::Fleet;
use super::save::text;
use super::server::Initial;
use crate::gpubox::Passes;
use crate::{Error, Result, Role, RoleMaker, UserDefined};

/// What the server inside a trainer's process is called; nobody else can reach it.
const ENDPOINT: &str = "127.0.0.1:6174";

/// The server of a job that has no other process.
#[derive(Default)]
pub(super) struct Embedded {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<bireme_ps::Result<()>>>,
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it says does not matter any more: the trainer has ended with an error.
            drop(thread.join());
        }
    }
}

impl Fleet {
    /// The passes of a GPUBox trainer, after [`Fleet::init_worker`]; `None` for others.
    pub fn passes(&self) -> Option<MutexGuard<'_, Passes>> {
        let passes = self.passes.as_ref()?;
        Some(passes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks that this process can be one of a GPUBox job; without servers it becomes its own.
    pub(super) fn prepare_gpubox(&mut self) -> Result<()> {
        let (workers, endpoints) = (self.role.worker_num(), self.role.worker_endpoints().len());
        let has_servers = !self.role.server_endpoints().is_empty();
        let problem = if workers > 1 && !has_servers {
            "with several trainers needs a server, which has the tables: start one (`--server_num=1`)"
        } else if workers > 1 && self.is_worker() && endpoints != workers as usize {
            "with several trainers must know where each is, for they exchange rows: name all of them \
             (`--workers`, or `PADDLE_TRAINER_ENDPOINTS`)"
        } else if self.role.heter_worker_num() > 0 {
            "has no heter workers: leave them out (`--heter_worker_num`)"
        } else if self.role.is_collective() {
            "is no collective training: start the script without `is_collective`"
        } else {
            if !has_servers {
                self.embed()?;
            }
            return Ok(());
        };
        Err(Error::Config(format!("GPUBox {problem}")))
    }

    /// Whether this process is one of a GPUBox job.
    pub(super) fn is_gpubox(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.strategy.gpubox)
    }

    fn embed(&mut self) -> Result<()> {
        self.role = RoleMaker::user_defined(UserDefined {
            current_id: 0,
            role: Role::Worker,
            worker_num: Some(1),
            server_endpoints: vec![ENDPOINT.to_owned()],
            worker_endpoints: Vec::new(),
            heter_stages: Vec::new(),
        })?;
        self.transport = Arc::new(Memory::new(0));
        self.settings =
            Settings { interrupt: self.settings.interrupt.clone(), ..Settings::default() };
        self.is_on_network = false;
        self.embedded = Some(Embedded::default());
        Ok(())
    }

    /// Whether a server runs inside this process.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// That this process holds parameters, alone or beside training.
    pub(super) fn need_server(&self, method: &str) -> Result<()> {
        match self.embedded {
            Some(_) => Ok(()),
            None => self.need(Role::Server, method),
        }
    }

    /// What a server of this process runs first.
    pub(super) fn server_startup(&self) -> Result<Program> {
        match (&self.embedded, &self.job()?.transpiled) {
            (Some(_), Some(transpiled)) => Ok(transpiled.startup_program(ENDPOINT)?),
            _ => Ok(self.startup_program()?.clone()),
        }
    }

    /// Starts the server of a job without others, once.
    pub(super) fn serve_embedded(&mut self) -> Result<()> {
        if self.embedded.as_ref().is_none_or(|embedded| embedded.thread.is_some()) {
            return Ok(());
        }
        if self.initial.is_none() {
            self.init_server(None)?;
        }
        let Some(Initial { scope, checkpoint }) = self.initial.take() else { return Ok(()) };
        let Some(transpiled) = &self.job()?.transpiled else { return Ok(()) };
        let program = transpiled.pserver_program(ENDPOINT)?;
        let checkpoint = checkpoint.as_deref().map(text).transpose()?;
        let (transport, settings) = (Arc::clone(&self.transport), self.settings.clone());
        let folders = Folders::default();
        let server =
            PsServer::start_from(&program, &scope, checkpoint, &[], folders, transport, settings)?;
        let Some(embedded) = &mut self.embedded else { return Ok(()) };
        let stop = Arc::clone(&embedded.stop);
        let serve = move || server.run(&|| stop.load(Ordering::Relaxed));
        let thread = std::thread::Builder::new().name("server".to_owned()).spawn(serve);
        embedded.thread = Some(thread.map_err(|error| {
            Error::Config(format!("cannot start the thread that holds the tables: {error}"))
        })?);
        Ok(())
    }

    /// Waits for the end of the server inside this process, which its trainer has told to.
    pub(super) fn end_embedded(&mut self) -> Result<()> {
        let thread = self.embedded.as_mut().and_then(|embedded| embedded.thread.take());
        match thread.map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(served)) => Ok(served?),
            Some(Err(_)) => {
                Err(Error::Config("the thread that holds the tables panicked".to_owned()))
            }
        }
    }

    /// Opens the passes of a GPUBox trainer, or brings them to what the servers have.
    pub(super) fn start_passes(&mut self, executor: &Executor) -> Result<()> {
        if let Some(mut passes) = self.passes() {
            return passes.refresh();
        }
        let job = self.job()?;
        let (Some(worker), true) = (self.worker(), job.strategy.gpubox) else { return Ok(()) };
        let budget = self.environment.gpubox_memory;
        let (scope, device) = (executor.scope(), executor.device());
        let group = self.rings().map(|rings| rings.group(0));
        let passes = Passes::open(&job.main, worker, scope, device, budget, group.as_ref())?;
        self.passes = passes.map(|passes| Arc::new(Mutex::new(passes)));
        Ok(())
    }

    /// All rows of a table that GPUBox keeps by key and the model declares by row numbers; `None` for
    /// one that takes any key.
    pub(super) fn rows_of_pass_table(&self, worker: &Worker, var: &Var) -> Result<Option<Tensor>> {
        let Some(passes) = self.passes() else { return Ok(None) };
        let table = passes.plan().tables.iter().find(|table| table.reference.name == var.name);
        let keyed = |op: &&Op| {
            let flag = |name| matches!(op.attrs.get(name), Some(Attr::Bool(true)));
            let named = |name| matches!(op.attrs.get(name), Some(Attr::String(text)) if !matches!(text.as_str(), "" | "none"));
            op.inputs_of("W") == [var.name.as_str()]
                && (flag("is_distributed") || named("table_class") || named("entry"))
        };
        let takes_any_key = self.original_program()?.global().ops.iter().any(|op| keyed(&op));
        let (Some(table), Some(rows), false) =
            (table, var.shape.first().and_then(|rows| u64::try_from(*rows).ok()), takes_any_key)
        else {
            return Ok(None);
        };
        let (width, record) = (table.reference.width, table.record_width());
        let mut whole = Tensor::zeros(var.dtype, [rows as usize, width]);
        let keys: Vec<u64> = (0..rows).collect();
        let values = whole.as_mut_slice::<f32>()?;
        for (keys, to) in keys.chunks(1 << 16).zip(values.chunks_mut(width << 16)) {
            let mut records = vec![0.0; keys.len() * record];
            worker.pull_records(&table.reference, record, keys, &mut records)?;
            for (to, record) in to.chunks_exact_mut(width).zip(records.chunks_exact(record)) {
                table.pull(record, to);
            }
        }
        Ok(Some(whole))
    }

    pub(super) fn flush_passes(&self) -> Result<()> {
        self.passes().map_or(Ok(()), |mut passes| passes.flush())
    }

    pub(super) fn reload_passes(&self) -> Result<()> {
        self.passes().map_or(Ok(()), |mut passes| passes.reload())
    }

    pub(super) fn refresh_passes(&self) -> Result<()> {
        self.passes().map_or(Ok(()), |mut passes| passes.refresh())
    }
}
