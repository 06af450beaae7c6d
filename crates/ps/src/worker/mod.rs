//! The trainer's side: routes values to servers, queues and merges them, and keeps a mode's promises.

mod config;
mod distinct;
mod route;

pub use config::{GEO_STEPS, Knobs, WorkerConfig};
