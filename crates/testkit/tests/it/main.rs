//! Clusters against local runs, and what needs several crates to be compared.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod calls_on_cards;
mod cards;
mod checkpoint;
mod collective;
mod collective_on_cards;
mod datasets;
mod datasets_on_cards;
mod equals_local;
mod faults;
mod faults_on_cards;
mod gpubox;
mod gpubox_on_cards;
mod gpubox_records;
mod gpubox_rows;
mod heter;
mod modes;
mod optimizers;
#[cfg(target_os = "linux")]
mod processes;
mod reference;
mod strangers;
mod tables_on_cards;
