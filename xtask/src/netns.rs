//! `cargo xtask netns`: jobs on three machines made of network namespaces.
//!
//! Needs root and `ip`, and says so where it cannot run; so it is a command of its own and no part
//! of the gate. The cases are `tools/netns/run.py`'s.

use anyhow::Result;

use crate::process::{cargo, output, root, run as run_command, step, target_dir};
use crate::pytest::{ALONE, build_extension};
use crate::venv::{Venv, script};

/// Builds the launcher and the extension and runs the cases; `args` name some of them.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (tools, script) = (Venv::with_tools()?, script("tools/netns/run.py")?);
    let missing = output(tools.python().arg(&script).arg("--missing"))?;
    if !missing.trim().is_empty() {
        println!("skipped: {}", missing.trim());
        return Ok(());
    }
    step("build the launcher and the extension", || {
        run_command(&mut cargo(&["build", "--locked", "-p", "bireme-cli", "--bin", "fleetrun"]))?;
        build_extension(ALONE)
    })?;
    run_command(
        tools
            .python()
            .arg(script)
            .args(args)
            .env("BIREME_FLEETRUN", target_dir()?.join("debug/fleetrun"))
            .env("BIREME_PYTHONPATH", root().join("python"))
            .env("PYTHON", tools.program("python")),
    )
}
