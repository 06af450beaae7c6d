//! Clusters against local runs, and what needs several crates to be compared.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod checkpoint;
mod collective;
mod equals_local;
mod faults;
mod gpubox;
mod heter;
mod modes;
mod optimizers;
#[cfg(target_os = "linux")]
mod processes;
mod reference;
mod strangers;
mod tables_on_cards;
