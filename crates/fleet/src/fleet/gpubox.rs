//! GPUBox as a process of a job: the trainer's passes, and, where nobody serves the tables, a server
//! inside the process of trainer 0. One that is alone reaches it through memory, several over the network.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bireme_comm::{Bound, Memory, Settings, Stream, Transport};
use bireme_engine::Executor;
use bireme_engine::tensor::Tensor;
use bireme_ir::{Attr, Op, Program, Var};
use bireme_ps::server::{Folders, PsServer};
use bireme_ps::worker::Worker;

use super::Fleet;
use super::save::text;
use super::server::{Initial, listen_at, listens_at};
use crate::gpubox::Passes;
use crate::settings::{check_guarded, folders};
use crate::{Error, Result, Role, RoleMaker, UserDefined};

/// What the server inside a trainer's process is called where nobody else can reach it.
const ENDPOINT: &str = "127.0.0.1:6174";

/// The server of a job that has no process for it.
#[derive(Default)]
pub(super) struct Embedded {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<bireme_ps::Result<()>>>,
    /// Where other trainers reach it.
    endpoint: String,
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

    /// Checks that this process can be one of a GPUBox job; without servers, trainer 0 becomes one, too.
    pub(super) fn prepare_gpubox(&mut self) -> Result<()> {
        let (workers, endpoints) = (self.role.worker_num(), self.role.worker_endpoints().len());
        let has_servers = !self.role.server_endpoints().is_empty();
        let problem = if workers > 1 && self.is_worker() && endpoints != workers as usize {
            "with several trainers must know where each is, for they exchange rows: name all of them \
             (`--workers`, or `PADDLE_TRAINER_ENDPOINTS`)"
        } else if self.role.heter_worker_num() > 0 {
            "has no heter workers: leave them out (`--heter_worker_num`)"
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
        let (index, workers) = (self.role.index(), self.role.worker_num());
        let worker_endpoints = self.role.worker_endpoints().to_vec();
        // Among several, the server has the name of the process that it is in.
        let first = worker_endpoints.first().filter(|_| workers > 1).cloned();
        if first.is_none() {
            self.transport = Arc::new(Memory::new(0));
            self.settings =
                Settings { interrupt: self.settings.interrupt.clone(), ..Settings::default() };
            self.is_on_network = false;
        }
        self.role = RoleMaker::user_defined(UserDefined {
            current_id: i64::from(index),
            role: Role::Worker,
            worker_num: Some(i64::from(workers)),
            worker_endpoints: if first.is_some() { worker_endpoints } else { Vec::new() },
            server_endpoints: vec![first.unwrap_or_else(|| ENDPOINT.to_owned())],
            heter_stages: Vec::new(),
        })?;
        if index == 0 {
            self.embedded = Some(Embedded::default());
        }
        Ok(())
    }

    /// Whether the server is in the process of trainer 0, and others reach it there.
    fn has_server_in_trainer_0(&self) -> bool {
        let trainers = self.role.worker_endpoints();
        trainers.len() > 1 && self.role.server_endpoints() == &trainers[..1]
    }

    /// What carries bytes to the servers. One in the process of trainer 0 listens at a port that was free,
    /// which the trainers are told here, all of them together.
    pub(super) fn way_to_servers(&mut self) -> Result<Arc<dyn Transport>> {
        let transport = Arc::clone(&self.transport);
        if !self.has_server_in_trainer_0() {
            return Ok(transport);
        }
        let Some(rings) = self.join()? else { return Ok(transport) };
        let own = self.embedded.as_ref().map_or("", |embedded| &embedded.endpoint);
        let told = rings.group(0).all_gather_varied(own.as_bytes())?;
        let endpoint = told.first().map(|told| String::from_utf8_lossy(told).into_owned());
        let name = self.role.server_endpoints()[0].clone();
        Ok(Arc::new(Found { transport, name, endpoint: endpoint.unwrap_or_default() }))
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
            (Some(_), Some(transpiled)) => {
                Ok(transpiled.startup_program(&self.role.server_endpoints()[0])?)
            }
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
        let Some(initial) = self.initial.take() else { return Ok(()) };
        let server = self.start_embedded(&initial)?;
        let endpoint = self.endpoint_of(&server);
        let Some(embedded) = &mut self.embedded else { return Ok(()) };
        embedded.endpoint = endpoint;
        let stop = Arc::clone(&embedded.stop);
        let serve = move || server.run(&|| stop.load(Ordering::Relaxed));
        let thread = std::thread::Builder::new().name("server".to_owned()).spawn(serve);
        embedded.thread = Some(thread.map_err(|error| {
            Error::Config(format!("cannot start the thread that holds the tables: {error}"))
        })?);
        Ok(())
    }

    fn start_embedded(&self, Initial { scope, checkpoint }: &Initial) -> Result<PsServer> {
        let transpiled = self.job()?.transpiled.as_ref();
        let transpiled = transpiled.ok_or_else(|| {
            Error::Config("the program was not split, and has no tables to serve".to_owned())
        })?;
        let mut program = transpiled.pserver_program(&self.role.server_endpoints()[0])?;
        let folders = match self.has_server_in_trainer_0() {
            false => Folders::default(),
            true => {
                listen_at(&mut program, |endpoint| format!("{}:0", host_of(endpoint)));
                self.listen_as_told(&mut program)?;
                folders(&self.settings, &self.environment, checkpoint.as_deref())
            }
        };
        if self.is_on_network {
            check_guarded(listens_at(&program), &self.settings, &self.environment)?;
        }
        let checkpoint = checkpoint.as_deref().map(text).transpose()?;
        let (transport, settings) = (Arc::clone(&self.transport), self.settings.clone());
        Ok(PsServer::start_from(&program, scope, checkpoint, &[], folders, transport, settings)?)
    }

    /// Where others reach a server of this process: at its port, by the name that they know this host by.
    fn endpoint_of(&self, server: &PsServer) -> String {
        let port = server.endpoint().rsplit_once(':').map_or("", |(_, port)| port);
        format!("{}:{port}", host_of(&self.role.server_endpoints()[0]))
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

fn host_of(endpoint: &str) -> &str {
    endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host)
}

/// A transport that knows where the process called `name` listens.
struct Found {
    transport: Arc<dyn Transport>,
    name: String,
    endpoint: String,
}

impl Found {
    fn place_of<'a>(&'a self, name: &'a str) -> &'a str {
        if name == self.name { &self.endpoint } else { name }
    }
}

impl Transport for Found {
    fn listen(&self, endpoint: &str) -> bireme_comm::Result<Bound> {
        self.transport.listen(endpoint)
    }

    fn connect(&self, name: &str, timeout: Duration) -> bireme_comm::Result<Box<dyn Stream>> {
        self.transport.connect(self.place_of(name), timeout)
    }

    fn connect_tcp(&self, name: &str, timeout: Duration) -> bireme_comm::Result<Box<dyn Stream>> {
        self.transport.connect_tcp(self.place_of(name), timeout)
    }
}
