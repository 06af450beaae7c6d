//! `cargo xtask parquet`: what only the feature `parquet` compiles.
//!
//! The feature has many dependencies, so the gate does not build it; this command lints and tests it.

use anyhow::Result;

use crate::process::{cargo, run as run_command, step};

const FEATURE: [&str; 2] = ["--features", "parquet"];

/// Lints and tests the reader, and checks that the command can be built with it.
pub(crate) fn run() -> Result<()> {
    step("clippy", || {
        let lint = ["clippy", "--locked", "-p", "bireme-data", "--all-targets"];
        run_command(cargo(&lint).args(FEATURE).args(["--", "-D", "warnings"]))
    })?;
    step("cargo test", || {
        run_command(cargo(&["test", "--locked", "-p", "bireme-data"]).args(FEATURE))
    })?;
    step("cargo check", || {
        run_command(cargo(&["check", "--locked", "-p", "bireme-cli"]).args(FEATURE))
    })
}
