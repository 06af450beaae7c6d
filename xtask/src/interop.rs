//! `cargo xtask interop`: models saved here load in real Paddle, and the other way round.
//!
//! This file prepares both sides (a release build, a virtual environment with Paddle) and hands
//! over to the script; the cases and their tolerances are the script's.

use std::env::consts::EXE_SUFFIX;

use anyhow::Result;

use crate::process::{build_release, run as run_command};
use crate::venv::{self, Venv};

const SCRIPT: &str = "tools/interop/run.py";

/// Runs the exchange; `args` go to the script.
pub(crate) fn run(args: &[String]) -> Result<()> {
    run_both_sides(SCRIPT, args)
}

/// Runs a script under Paddle's Python; `BIREME_BIN` is the `bireme` command and `BIREME_EXAMPLES`
/// the folder of the examples, both built in release.
pub(crate) fn run_both_sides(script: &str, args: &[String]) -> Result<()> {
    let script = venv::script(script)?;
    let release = build_release()?;
    let venv = Venv::with_paddle()?;
    run_command(
        venv.python()
            .arg(script)
            .args(args)
            .env("BIREME_BIN", release.join(format!("bireme{EXE_SUFFIX}")))
            .env("BIREME_EXAMPLES", release.join("examples")),
    )
}
