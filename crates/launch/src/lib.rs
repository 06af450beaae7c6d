//! `fleetrun`: from a command line to a running job, and from its first failure to a clean end.
//!
//! The layers, each of which uses only those before it: [`job`] (what is to run, as plain data) ·
//! `arguments` (the command line) · `plan` (a command line and a machine make a job) · `ports`
//! (endpoints that stay free) · `show` (the tables) · `rendezvous` (several machines agree) ·
//! `supervise` (processes from start to end) · `submit` (the same job for other schedulers).

pub mod job;
pub mod submit;
