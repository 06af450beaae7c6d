//! What a launcher runs, as plain data: made by `plan`, printed by `show`, run by `supervise`.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a process of a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Holds parameters.
    Server,
    /// Trains.
    Worker,
    /// Runs the dense part of a model for workers.
    HeterWorker,
}

impl Role {
    /// The file name of a process's log without its number: `serverlog`.
    pub fn log_name(self) -> &'static str {
        match self {
            Role::Server => "serverlog",
            Role::Worker => "workerlog",
            Role::HeterWorker => "heterlog",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Server => "server",
            Role::Worker => "worker",
            Role::HeterWorker => "heter worker",
        })
    }
}

/// How the processes of a job work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Equal workers that reduce among themselves.
    Collective,
    /// Workers with parameter servers.
    Servers,
    /// The same, with heterogeneous workers.
    Heter,
}

/// A job on all its machines.
#[derive(Clone, Debug)]
pub struct Job {
    /// How it works.
    pub mode: Mode,
    /// Its name, `default` unless given.
    pub id: String,
    /// The machines' addresses, in the order of their first appearance.
    pub nodes: Vec<String>,
    /// Which of them is this one.
    pub node: usize,
    /// All processes of all machines: servers, workers, heter workers, each in the order of ranks.
    pub processes: Vec<Process>,
    /// What every process runs.
    pub command: Vec<OsString>,
    /// Where logs go.
    pub log_dir: PathBuf,
    /// How often a failed process may be started again, over the whole job.
    pub max_restart: u32,
}

/// One process of a job.
#[derive(Clone, Debug)]
pub struct Process {
    /// What it does.
    pub role: Role,
    /// Its number among the processes of its role in the whole job.
    pub rank: usize,
    /// Its number among the processes of its role on its machine: the number of its log.
    pub local_rank: usize,
    /// Its machine, an index of [`Job::nodes`].
    pub node: usize,
    /// Its address, `ip:port`.
    pub endpoint: String,
    /// Variables set for it, in the order in which they are shown.
    pub variables: Vec<(String, String)>,
    /// Variables that it must not inherit.
    pub removed: Vec<String>,
}

impl Job {
    /// The processes of this machine.
    pub fn local(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.node == self.node)
    }
}

impl Process {
    /// Who it is in messages: `worker 3`.
    pub fn name(&self) -> String {
        format!("{} {}", self.role, self.rank)
    }

    /// The name of its log file: `workerlog.0`.
    pub fn log_file(&self) -> String {
        format!("{}.{}", self.role.log_name(), self.local_rank)
    }
}
