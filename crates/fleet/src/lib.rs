//! The facade of a distributed job: roles, strategy, environment, and [`Fleet`], which wires the
//! transpiler, the parameter servers and the engine together.

mod error;

pub use error::{Error, Result};
