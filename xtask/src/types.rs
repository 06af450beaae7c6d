//! The types of the Python package: mypy reads every file, and the stubs of the extension are held
//! against the extension itself.

use anyhow::Result;

use crate::process::{root, run as run_command, step};
use crate::pytest::{ALONE, build_extension};
use crate::venv::Venv;

/// Where the two differ on purpose.
const ALLOWED: &str = "tools/stubtest_allowlist.txt";

/// Builds the extension and checks.
pub(crate) fn run() -> Result<()> {
    step("build the extension", || build_extension(ALONE))?;
    check()
}

/// Checks with the extension that is there.
pub(crate) fn check() -> Result<()> {
    let tools = Venv::with_tools()?;
    step("mypy", || run_command(tools.python().args(["-m", "mypy"])))?;
    step("stubs of the extension", || {
        let mut stubtest = tools.python();
        stubtest.args(["-m", "mypy.stubtest", "bireme._core", "--ignore-disjoint-bases"]);
        stubtest.args(["--mypy-config-file", "pyproject.toml", "--allowlist", ALLOWED]);
        run_command(stubtest.env("PYTHONPATH", root().join("python")))
    })
}
