//! Trains recommenders from PaddleRec's YAML.
//!
//! The layers, each of which uses only those before it: [`config`] (a YAML file, with the place of
//! every value) · [`zoo`] (models by name) · [`run`] (a configuration in, a trained model out) ·
//! [`report`] (what a run was like) · [`tune`] (which values make the best one).

pub mod config;
mod error;
mod log;
pub mod pickle;
pub mod report;
pub mod run;
pub mod tune;
pub mod zoo;

pub use config::Config;
pub use error::{Error, Result};
pub use log::Log;
