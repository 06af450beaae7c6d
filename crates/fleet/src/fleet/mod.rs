//! [`Fleet`]: one process's part of a job, from its role to the end of training.
//!
//! Nothing here is global: a test may hold a whole cluster of them over a transport in memory.

mod gpubox;
mod heter;
mod peers;
mod ranks;
mod save;
mod server;
mod worker;

use std::sync::{Arc, Mutex};

use bireme_comm::{Settings, Transport};
use bireme_engine::graph::Variable;
use bireme_engine::optimizer::{Minimized, Optimizer};
use bireme_ir::Program;
use bireme_transpiler::{Transpiled, Transpiler};

use crate::collective::{Rings, Road};
use crate::gpubox::Passes;
use crate::settings::{network, settings};
use crate::util::Util;
use crate::{Environment, Error, Reporter, Result, Role, RoleMaker, Strategy, split_files};

pub use bireme_ps::table::SaveMode;
pub use heter::{connect_stages, serve_stage};
pub use peers::{Gather, Peers, share_files};
pub use server::serve_program;
pub use worker::{Tuning, connect_trainer};

/// A process of a job: with parameter servers, or of ranks that reduce among themselves.
///
/// The calls of a trainer: [`Fleet::minimize`], [`Fleet::init_worker`], steps of
/// [`Fleet::main_program`], [`Fleet::stop_worker`]. Those of a server: [`Fleet::minimize`],
/// [`Fleet::init_server`], [`Fleet::run_server`]. A rank of a collective job makes the calls of a
/// trainer. With heter workers, trainers make the steps of [`Fleet::stages`] instead, and those
/// workers serve ([`Fleet::run_heter_worker`]) after [`Fleet::init_worker`]. A process without a
/// launcher is a trainer without servers, and the same calls train it alone.
pub struct Fleet {
    role: RoleMaker,
    environment: Environment,
    reporter: Reporter,
    transport: Arc<dyn Transport>,
    settings: Settings,
    /// Whether it talks over a network, where strangers may be.
    is_on_network: bool,
    /// Where a server listens, if not at its endpoint in the list.
    bind: Option<String>,
    job: Option<Job>,
    worker: Option<worker::Connected>,
    /// The other ranks of a collective job.
    rings: Option<Arc<Rings>>,
    /// How the cards of ranks exchange.
    road: Road,
    /// What a server starts with.
    initial: Option<server::Initial>,
    /// The passes of a GPUBox trainer.
    passes: Option<Arc<Mutex<Passes>>>,
    /// The server in this process, of a GPUBox job that has none of its own.
    embedded: Option<gpubox::Embedded>,
}

/// The programs of a job.
struct Job {
    strategy: Strategy,
    /// As the user wrote it, with the updates.
    original: Program,
    /// What ranks compare, see [`Program::fingerprint`].
    fingerprint: Vec<String>,
    /// How it is split; `None` for a process without servers.
    transpiled: Option<Transpiled>,
    /// What this role runs each step, or serves.
    main: Program,
    /// What this role runs first.
    startup: Program,
}

impl Fleet {
    /// A process with this role, on the network.
    ///
    /// # Errors
    /// When the environment's settings contradict each other.
    pub fn init(role: RoleMaker, environment: &Environment) -> Result<Fleet> {
        let transport = Arc::new(network(environment));
        Ok(Fleet {
            settings: settings(environment)?,
            environment: environment.clone(),
            reporter: Reporter::new(environment),
            is_on_network: true,
            road: environment.rpc.road,
            ..Fleet::with_transport(role, transport, Settings::default())
        })
    }

    /// Says how the cards of ranks exchange, instead of the environment.
    #[must_use]
    pub fn road(mut self, road: Road) -> Fleet {
        self.road = road;
        self
    }

    /// Says how many bytes the rows of a GPUBox pass may take, instead of the environment.
    #[must_use]
    pub fn gpubox_memory(mut self, bytes: usize) -> Fleet {
        self.environment.gpubox_memory = Some(bytes);
        self
    }

    /// The process that the environment of a launcher describes.
    ///
    /// # Errors
    /// When it describes none.
    pub fn from_environment() -> Result<Fleet> {
        let environment = Environment::read()?;
        Fleet::init(RoleMaker::from_environment(&environment)?, &environment)
    }

    /// A process with this role that reaches the others in its own way: for tests.
    pub fn with_transport(
        role: RoleMaker,
        transport: Arc<dyn Transport>,
        settings: Settings,
    ) -> Fleet {
        Fleet {
            role,
            environment: Environment::default(),
            reporter: Reporter::default(),
            transport,
            settings,
            is_on_network: false,
            bind: None,
            job: None,
            worker: None,
            rings: None,
            road: Road::Auto,
            initial: None,
            passes: None,
            embedded: None,
        }
    }

    /// Lets a server listen at another address than its endpoint in the list: any free port
    /// (`127.0.0.1:0`), or all addresses of a machine that others know by another name.
    pub fn bind(mut self, address: &str) -> Fleet {
        self.bind = Some(address.to_owned());
        self
    }

    /// Who this process is.
    pub fn role(&self) -> &RoleMaker {
        &self.role
    }

    /// Whether it trains.
    pub fn is_worker(&self) -> bool {
        self.role.role() == Role::Worker
    }

    /// Whether it holds parameters.
    pub fn is_server(&self) -> bool {
        self.role.role() == Role::Server
    }

    /// Whether it runs a part of the program for trainers.
    pub fn is_heter_worker(&self) -> bool {
        self.role.role() == Role::HeterWorker
    }

    /// Whether it is trainer 0.
    pub fn is_first_worker(&self) -> bool {
        self.is_worker() && self.role.index() == 0
    }

    /// The number of this trainer.
    pub fn worker_index(&self) -> u32 {
        self.role.index()
    }

    /// Trainers of the job.
    pub fn worker_num(&self) -> u32 {
        self.role.worker_num()
    }

    /// The number of this server.
    pub fn server_index(&self) -> u32 {
        self.role.index()
    }

    /// Servers of the job.
    pub fn server_num(&self) -> usize {
        self.role.server_endpoints().len()
    }

    /// Endpoints of the trainers, as far as they are known.
    pub fn worker_endpoints(&self) -> &[String] {
        self.role.worker_endpoints()
    }

    /// Endpoints of all servers.
    pub fn server_endpoints(&self) -> &[String] {
        self.role.server_endpoints()
    }

    /// This trainer's share of a list of files.
    pub fn split_files<'a, T>(&self, files: &'a [T]) -> Result<&'a [T]> {
        self.need_worker("split_files")?;
        Ok(split_files(files, self.role.index() as usize, self.role.worker_num() as usize))
    }

    /// Appends what makes `loss` smaller to its graph, and splits the programs for this job.
    ///
    /// # Errors
    /// When the optimizer refuses the loss, or the program cannot be distributed so.
    pub fn minimize(
        &mut self,
        loss: &Variable,
        optimizer: &dyn Optimizer,
        strategy: &Strategy,
    ) -> Result<Minimized> {
        let minimized = optimizer.minimize(loss)?;
        let graph = loss.graph();
        self.distribute(&graph.main(), &graph.startup(), strategy)?;
        Ok(minimized)
    }

    /// As [`Fleet::minimize`], for programs that have their updates already.
    ///
    /// # Errors
    /// When the program cannot be distributed so.
    pub fn distribute(
        &mut self,
        main: &Program,
        startup: &Program,
        strategy: &Strategy,
    ) -> Result<()> {
        let original = main.clone();
        let fingerprint = main.fingerprint(Some(startup));
        if strategy.gpubox {
            self.prepare_gpubox()?;
        }
        if self.role.server_endpoints().is_empty() {
            let (main, startup) = self.for_ranks(main, startup, strategy)?;
            let strategy = strategy.clone();
            let transpiled = None;
            self.job = Some(Job { strategy, original, fingerprint, transpiled, main, startup });
            return Ok(());
        }
        let config = strategy.config()?;
        let mut described = main.clone();
        strategy.describe_tables(&mut described)?;
        let sync = config.sync_mode;
        let (endpoints, place) = (self.role.server_endpoints(), self.role.place());
        let trainers = self.role.worker_num() as usize;
        let transpiler = Transpiler::new(config)?;
        let transpiled = match self.heter(strategy) {
            _ if strategy.gpubox => {
                let who = (place.index, trainers);
                transpiler.transpile_gpubox(who, &described, startup, endpoints)?
            }
            None => {
                transpiler.transpile(place.index, &described, startup, endpoints, trainers, sync)?
            }
            Some(heter) => transpiler
                .transpile_heter(place, &described, startup, endpoints, trainers, &heter, sync)?,
        };
        let (main, startup) = match self.role.role() {
            Role::Worker | Role::HeterWorker => {
                (transpiled.trainer_program().clone(), transpiled.trainer_startup().clone())
            }
            Role::Server => {
                let own = &endpoints[self.role.index() as usize];
                (transpiled.pserver_program(own)?, transpiled.startup_program(own)?)
            }
        };
        let strategy = strategy.clone();
        let transpiled = Some(transpiled);
        self.job = Some(Job { strategy, original, fingerprint, transpiled, main, startup });
        Ok(())
    }

    /// What this role runs each step, or serves.
    ///
    /// # Errors
    /// Before [`Fleet::minimize`].
    pub fn main_program(&self) -> Result<&Program> {
        Ok(&self.job()?.main)
    }

    /// What this role runs first.
    ///
    /// # Errors
    /// Before [`Fleet::minimize`].
    pub fn startup_program(&self) -> Result<&Program> {
        Ok(&self.job()?.startup)
    }

    /// The program before it was split.
    ///
    /// # Errors
    /// Before [`Fleet::minimize`].
    pub fn original_program(&self) -> Result<&Program> {
        Ok(&self.job()?.original)
    }

    /// What this process tells its launcher: a trainer reports its steps there.
    pub fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    /// What trainers tell each other apart from training.
    pub fn util(&self) -> Util<'_> {
        Util::new(self)
    }

    fn job(&self) -> Result<&Job> {
        self.job.as_ref().ok_or_else(|| {
            Error::Config("this process has no program yet: call `minimize` before".to_owned())
        })
    }

    fn need_worker(&self, method: &str) -> Result<()> {
        self.need(Role::Worker, method)
    }

    /// That this process trains, alone or for others.
    fn need_member(&self, method: &str) -> Result<()> {
        match self.role.role() {
            Role::HeterWorker => Ok(()),
            _ => self.need_worker(method),
        }
    }

    fn need(&self, role: Role, method: &str) -> Result<()> {
        if self.role.role() == role {
            return Ok(());
        }
        let wanted = match role {
            Role::Worker => "a trainer",
            Role::Server => "a server",
            Role::HeterWorker => "a heter worker",
        };
        Err(Error::Config(format!("`{method}` is for {wanted}, but this process is {}", self.role)))
    }
}
