//! The `bireme` command: `train`, `inspect`, `predict`, `bench` and `submit`, one file each in `commands`.
//!
//! Results go to stdout; progress, advice and errors go to stderr. A library so that the
//! Python package can run the command too, and examples and tests can use [`demo`].

mod bench;
mod cluster;
mod commands;
pub mod demo;
mod interrupt;
mod progress;
mod rows;
mod table;
mod terminal;
mod units;

pub use commands::{Host, run, run_from};
