//! Holds the parameters of a job: dense blocks and sparse tables on servers, the workers' way to
//! them, the modes of training, and checkpoints.
//!
//! The layers, each of which uses only those before it: [`table`] (rows by key, in memory) ·
//! [`checkpoint`] (files) · [`message`] (the protocol) · [`dense`] (parameters and their updates) ·
//! [`server`] · [`worker`] (the trainer's side) · [`heter`] (stages of a program on several processes).

pub mod checkpoint;
pub mod dense;
mod error;
pub mod heter;
pub mod message;
pub mod server;
pub mod table;
pub mod worker;

pub use bireme_ir::Mode;
pub use error::{Error, Result};
