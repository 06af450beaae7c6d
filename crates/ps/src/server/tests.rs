//! Servers over the in-memory transport: every mode, lost trainers, equal results.

mod cluster;
mod faults;
mod modes;
mod sync;
mod workers;
