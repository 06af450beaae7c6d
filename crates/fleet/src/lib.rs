//! The facade of a distributed job: roles, strategy, environment, and [`Fleet`], which wires the
//! transpiler, the parameter servers and the engine together.
//!
//! The layers, each of which uses only those before it: [`environment`] (what a launcher says) ·
//! roles (who a process is) · [`Strategy`] and settings (how to train) · [`Fleet`] (training) ·
//! [`Util`] (what trainers tell each other besides).

pub mod clock;
pub mod collective;
pub mod eager;
pub mod environment;
mod error;
mod files;
mod fleet;
pub mod gpubox;
mod log;
pub mod mpi;
mod report;
mod restart;
mod role;
mod settings;
pub mod shell;
mod strategy;
mod util;

/// The crates below, for those who need more than the facade.
pub use {
    bireme_collective as group, bireme_comm as comm, bireme_ps as ps,
    bireme_transpiler as transpiler,
};

pub use bireme_ps::Mode;
pub use bireme_ps::worker::{Reduce, Times, Worker};

pub use collective::connect_group;
pub use environment::Environment;
pub use error::{Error, Result};
pub use files::split_files;
pub use fleet::{
    Fleet, Gather, Peers, SaveMode, Tuning, connect_stages, connect_trainer, serve_program,
    serve_stage, share_files,
};
pub use log::log_to_stderr;
pub use report::{Reporter, Spent};
pub use restart::{
    Choice, checkpoint_to_load, choose_checkpoint, last_checkpoint, remember_checkpoint,
    tell_checkpoint,
};
pub use role::{Role, RoleMaker, UserDefined};
pub use settings::settings;
pub use strategy::Strategy;
pub use util::Util;
