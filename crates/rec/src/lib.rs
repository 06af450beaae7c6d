//! Trains recommenders from PaddleRec's YAML.
//!
//! The layers, each of which uses only those before it: [`config`] (a YAML file, with the place of
//! every value) · [`zoo`] (models by name) · runs (a configuration in, a trained model out).

pub mod config;
mod error;
pub mod zoo;

pub use error::{Error, Result};
