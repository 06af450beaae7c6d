//! A parameter server: runs a server's program until its trainers are done.
//!
//! Requests come in on the connections' own threads ([`service`]) and change what the server holds
//! ([`state`]); barriers and meetings keep their replies ([`roster`]) until everybody is there.
//! Dense parameters are blocks with a lock each, keyed tables have locks per shard, so requests
//! wait for one another only where they touch the same thing.

mod answers;
mod build;
mod changed;
mod config;
mod crew;
mod folders;
mod gather;
mod keep;
mod lineage;
mod meet;
mod progress;
mod roster;
mod service;
mod stat;
mod state;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use roster::deadlines_for_first;

pub use config::{PieceOf, ServerConfig};
pub use folders::Folders;
pub use roster::LostTrainer;
pub use stat::{DenseStat, Stat, TableStat};

use std::sync::Arc;
use std::time::{Duration, Instant};

use bireme_comm::{Identity, Server, Settings, Transport};
use bireme_engine::Scope;
use bireme_engine::tensor::Tensor;
use bireme_ir::Program;

use crate::{Error, Result};
use roster::Verdict;
use service::Service;
use state::State;

/// How often a server looks at the clock and asks whether it shall stop.
const TICK: Duration = Duration::from_millis(50);
/// How often a server says that it still waits for trainers.
const REMINDER: Duration = Duration::from_secs(30);
/// How long a server that is done, or has failed, waits for trainers to close their connections.
const FAREWELL: Duration = Duration::from_secs(2);

/// A parameter server that listens.
pub struct PsServer {
    service: Arc<Service>,
    server: Server,
    scope: Scope,
    /// How long a failure waits for trainers that have not heard of it.
    patience: Duration,
}

impl PsServer {
    /// Starts the server of `program`, with the values that its startup program left in `scope`.
    ///
    /// It takes its parameters out of the scope; [`PsServer::run`] puts them back. Port 0 stands
    /// for any free one, see [`PsServer::endpoint`].
    ///
    /// # Errors
    /// When the program is no server's, a variable has no value, or the endpoint is taken.
    pub fn start(
        program: &Program,
        scope: &Scope,
        transport: Arc<dyn Transport>,
        settings: Settings,
    ) -> Result<PsServer> {
        let folders = Folders::default();
        PsServer::start_from(program, scope, None, &[], folders, transport, settings)
    }

    /// As [`PsServer::start`], with its share of the checkpoint in `directory`, which is loaded
    /// before the first trainer can ask for anything: all of it, or only the tables named in `only`.
    /// Trainers may have it save and load in `folders`.
    ///
    /// # Errors
    /// Also when the checkpoint is damaged or of another model.
    pub fn start_from(
        program: &Program,
        scope: &Scope,
        directory: Option<&str>,
        only: &[String],
        folders: Folders,
        transport: Arc<dyn Transport>,
        settings: Settings,
    ) -> Result<PsServer> {
        let config = ServerConfig::from_program(program)?;
        let (endpoint, rank) = (config.endpoint.clone(), config.server);
        let mut state = State::new(program, scope, config)?;
        state.folders = folders;
        if let Some(directory) = directory {
            state.start_from(directory, only)?;
        }
        let patience = settings.heartbeat_timeout;
        let service = Arc::new(Service::new(state, settings.deadline, settings.max_frame));
        let handler = Arc::clone(&service);
        let server =
            Server::start(transport, &endpoint, Identity::server(rank), settings, handler)?;
        service.state.address.get_or_init(|| server.endpoint().to_owned());
        Ok(PsServer { service, server, scope: scope.clone(), patience })
    }

    /// Says that a launcher or a scheduler starts the processes of the job, and starts again those
    /// that fail: they are waited for longer.
    pub fn set_managed(&self) {
        self.service.roster().is_managed = true;
    }

    /// Where it listens, as `ip:port`.
    pub fn endpoint(&self) -> &str {
        self.server.endpoint()
    }

    /// What its program says.
    pub fn config(&self) -> &ServerConfig {
        &self.service.state.config
    }

    /// What it holds and did.
    ///
    /// # Errors
    /// None today.
    pub fn stat(&self) -> Result<Stat> {
        self.service.state.stat()
    }

    /// The trainers and heter workers that are lost at present.
    pub fn lost(&self) -> Vec<LostTrainer> {
        self.service.roster().lost()
    }

    /// Loads its share of the checkpoint in `directory`; trainers must not have begun.
    ///
    /// # Errors
    /// When the checkpoint is damaged or of another model.
    pub fn load(&self, directory: &str) -> Result<()> {
        self.service.state.start_from(directory, &[])
    }

    /// Serves until all trainers have finished, then puts the values back into the scope.
    /// `interrupt` is asked many times a second; when it says yes, the server stops.
    ///
    /// # Errors
    /// When a trainer is lost: at once if the others cannot do without it, otherwise when they have
    /// finished; when a trainer never comes, or [`Error::Interrupted`]. The values are in the scope then, too.
    pub fn run(&self, interrupt: &dyn Fn() -> bool) -> Result<()> {
        let ended = self.serve(interrupt);
        // After a failure, too: who comes in these moments still hears whose loss ended the job.
        if !matches!(ended, Err(Error::Interrupted)) {
            self.say_goodbye();
        }
        match &ended {
            Err(error) => self.server.shutdown_because(&error.to_string()),
            Ok(()) => self.server.shutdown(),
        }
        self.write_back()?;
        ended
    }

    fn serve(&self, interrupt: &dyn Fn() -> bool) -> Result<()> {
        let mut told = Instant::now();
        loop {
            if interrupt() {
                return Err(Error::Interrupted);
            }
            match self.service.check_timeouts(self.patience) {
                Verdict::Going => {}
                Verdict::Waiting(for_whom) => {
                    if told.elapsed() >= REMINDER {
                        told = Instant::now();
                        tracing::warn!("{} {for_whom}", self.service.state.name());
                    }
                }
                Verdict::Finished(lost) if lost.is_empty() => return Ok(()),
                // The others have not waited for it, but what it was to train on is missing.
                Verdict::Finished(lost) => {
                    let server = self.service.state.name();
                    let problem = format!(
                        "{server}: the other trainers have finished, but {}; what they trained and \
                         saved lacks its share",
                        lost.join(", ")
                    );
                    return Err(Error::Missing(problem));
                }
                Verdict::Failed(problem) => return Err(Error::Missing(problem)),
            }
            let waited = self.service.news.wait_timeout(self.service.roster(), TICK);
            drop(waited.unwrap_or_else(std::sync::PoisonError::into_inner));
        }
    }

    /// Lets trainers close their connections before the server does.
    fn say_goodbye(&self) {
        let until = Instant::now() + FAREWELL.min(self.patience);
        while !self.server.peers().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn write_back(&self) -> Result<()> {
        let state = &self.service.state;
        let set = |name: &str, tensor: &Tensor| self.scope.try_set(name, tensor);
        for update in &state.blocks {
            for name in update.block.kept() {
                update.block.read(name, |value| set(name, value))??;
            }
        }
        for name in state.shared.names() {
            if let Some(value) = state.shared.get(&name) {
                set(&name, &value)?;
            }
        }
        if let Some(rates) = &state.rates {
            for name in &rates.kept {
                rates.block.read(name, |value| set(name, value))??;
            }
        }
        Ok(())
    }
}
