//! The facade of a distributed job: roles, strategy, environment, and `Fleet`, which wires the
//! transpiler, the parameter servers and the engine together.

pub mod environment;
mod error;
mod files;
mod role;

pub use environment::Environment;
pub use error::{Error, Result};
pub use files::split_files;
pub use role::{Role, RoleMaker, UserDefined};
