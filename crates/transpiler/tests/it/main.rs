//! Programs in, programs of all roles out: the vectors of Paddle's own tests, and laws that hold
//! for every split.
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod catalog;
mod collective;
mod dense;
mod equal;
mod gpubox;
mod heter;
mod laws;
mod models;
mod modes;
mod optimizers;
mod rates;
mod tables;
