//! `fleetrun`: from a command line to a running job, and from its first failure to a clean end.
//!
//! The layers, each of which uses only those before it: [`job`] (what is to run, as plain data) ·
//! [`arguments`] (the command line) · [`addresses`] (which machine this is) · [`ports`] (endpoints
//! that stay free) · [`plan`] (a command line and a machine make a job) · [`show`] (the tables) ·
//! [`rendezvous`] (several machines agree) · [`supervise`] (processes from start to end) ·
//! `launcher` with `meeting`, `processes` and `program` (all of it together: [`run`]) ·
//! [`submit`] (the same job for other schedulers).

pub mod addresses;
pub mod arguments;
pub mod job;
mod launcher;
pub mod log;
mod meeting;
pub mod plan;
pub mod ports;
mod processes;
mod program;
pub mod rendezvous;
pub mod show;
pub mod submit;
pub mod supervise;

pub use launcher::{Host, in_words, run};
