//! `cargo xtask golden`: asks real Paddle for the values that the op tests compare with.
//!
//! The values are stored in the repository, so that the default tests need no Python.

use anyhow::Result;

use crate::process::run as run_command;
use crate::venv::{self, Venv};

const SCRIPT: &str = "tools/golden/generate.py";

/// Regenerates `crates/engine/tests/golden`; `args` go to the script.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let script = venv::script(SCRIPT)?;
    let venv = Venv::with_paddle()?;
    run_command(venv.python().arg(script).args(args))?;
    eprintln!("    review the difference with `git diff --stat` before committing it");
    Ok(())
}
