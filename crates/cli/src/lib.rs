//! The `bireme` command: `train`, `infer`, `report`, `launch`, `inspect`, `predict`, `data`, `bench` and
//! `submit`, one file or folder each in `commands`; and `fleetrun`, which is `bireme launch`.
//!
//! Results go to stdout; progress, advice and errors go to stderr. A library so that the
//! Python package can run the command too.

mod bench;
mod commands;
mod device;
mod interrupt;
mod progress;
mod rows;
mod table;
mod terminal;
mod units;

pub use bireme_launch::arguments::Flavor;
pub use commands::launch::{fleetrun, fleetrun_from};
pub use commands::{Host, run, run_from};
