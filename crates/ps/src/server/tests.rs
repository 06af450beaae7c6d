//! Servers over the in-memory transport: every mode, lost trainers, equal results.

mod cluster;
mod faults;
mod fence;
mod limits;
mod modes;
mod saves;
mod sync;
mod workers;
