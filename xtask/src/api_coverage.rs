//! `cargo xtask api-coverage`: which names of Paddle's API that real models call exist here.
//!
//! The names are data (`tools/api/paddlerec_names.csv`), the script compares them with the package
//! as built and writes the generated part of `docs/api.md`; `--check` fails when that is stale.

use anyhow::Result;

use crate::process::{root, run as run_command, step};
use crate::pytest::{ALONE, build_extension};
use crate::venv::{self, Venv};

const SCRIPT: &str = "tools/api/coverage.py";

/// Builds the package for development and counts; `args` go to the script.
pub(crate) fn run(args: &[String]) -> Result<()> {
    count(ALONE, args)
}

/// Fails when the page is stale; the package is built by this selection of cargo's targets.
pub(crate) fn check(selection: &[&str]) -> Result<()> {
    count(selection, &["--check".to_owned()])
}

fn count(selection: &[&str], args: &[String]) -> Result<()> {
    let script = venv::script(SCRIPT)?;
    let tools = Venv::with_tools()?;
    step("build the extension", || build_extension(selection))?;
    run_command(tools.python().arg(script).args(args).env("PYTHONPATH", root().join("python")))
}
