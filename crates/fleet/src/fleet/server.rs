//! The server's part of a job.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bireme_comm::{Settings, Transport};
use bireme_engine::{Executor, Place, Scope};
use bireme_ir::{Attr, Program};
use bireme_ps::server::PsServer;

use super::Fleet;
use super::save::text as path_text;
use crate::settings::{network, settings};
use crate::{Environment, Error, Result, Role, checkpoint_to_load};

/// What a server starts with.
pub(super) struct Initial {
    scope: Scope,
    checkpoint: Option<PathBuf>,
}

impl Fleet {
    /// Gives this server's parameters their first values, or those of a checkpoint: in a job that
    /// was started again, without a folder, of the last one that was saved.
    ///
    /// # Errors
    /// When this is no server, the startup program fails, or there is no such folder.
    pub fn init_server(&mut self, checkpoint: Option<&Path>) -> Result<()> {
        self.need(Role::Server, "init_server")?;
        if let Some(folder) = checkpoint.filter(|folder| !folder.is_dir()) {
            let folder = folder.display();
            return Err(Error::Config(format!("There is no directory named '{folder}'")));
        }
        let checkpoint = checkpoint_to_load(&self.environment, checkpoint);
        let scope = Scope::new();
        let mut executor = Executor::new(Place::Cpu)?.with_scope(scope.clone());
        executor.run(self.startup_program()?, &[], &[])?;
        self.initial = Some(Initial { scope, checkpoint });
        Ok(())
    }

    /// Serves until all trainers have finished; tells `on_listening` the endpoint first.
    ///
    /// # Errors
    /// When [`Fleet::init_server`] was not called, the port is taken, a trainer is lost that
    /// others wait for, or `interrupt` says yes.
    pub fn run_server(
        &mut self,
        interrupt: &dyn Fn() -> bool,
        on_listening: impl FnOnce(&str),
    ) -> Result<()> {
        self.need(Role::Server, "run_server")?;
        let initial = self.initial.take().ok_or_else(|| {
            Error::Config("this server has no parameters: call `init_server` before".to_owned())
        })?;
        let mut program = self.main_program()?.clone();
        if let Some(address) = &self.bind {
            listen_at(&mut program, address);
        }
        let Initial { scope, checkpoint } = initial;
        let (transport, settings) = (Arc::clone(&self.transport), self.settings.clone());
        let from = (checkpoint.as_deref(), &[][..]);
        serve(&program, &scope, transport, settings, from, interrupt, on_listening)
    }
}

/// Serves a server program that a script runs by itself (`exe.run(pserver_program)`): with the
/// values that `scope` holds or those of a checkpoint (of all tables, or of those that are named), on
/// the network and with the settings of the environment.
///
/// # Errors
/// As [`Fleet::run_server`].
pub fn serve_program(
    program: &Program,
    scope: &Scope,
    environment: &Environment,
    from: (Option<&Path>, &[String]),
    interrupt: &dyn Fn() -> bool,
    on_listening: impl FnOnce(&str),
) -> Result<()> {
    let transport = Arc::new(network(environment));
    serve(program, scope, transport, settings(environment)?, from, interrupt, on_listening)
}

fn serve(
    program: &Program,
    scope: &Scope,
    transport: Arc<dyn Transport>,
    settings: Settings,
    (checkpoint, only): (Option<&Path>, &[String]),
    interrupt: &dyn Fn() -> bool,
    on_listening: impl FnOnce(&str),
) -> Result<()> {
    let checkpoint = checkpoint.map(path_text).transpose()?;
    let server = PsServer::start_from(program, scope, checkpoint, only, transport, settings)?;
    on_listening(server.endpoint());
    Ok(server.run(interrupt)?)
}

/// Changes where a server program listens.
fn listen_at(program: &mut Program, address: &str) {
    for op in &mut program.global_mut().ops {
        if op.kind == "listen_and_serv" {
            op.attrs.insert("endpoint".into(), Attr::String(address.to_owned()));
        }
    }
}
