//! `cargo xtask pytest`: the tests and doctests of the Python package, against a fresh extension.
//!
//! The extension is the one of the development build, put into the package's folder, where git
//! ignores it; pytest and NumPy come from an environment in the build folder.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process::{cargo, root, run as run_command, step, target_dir};
use crate::venv::Venv;

/// Where Python looks for the package.
const PACKAGE_PARENT: &str = "python";

/// The name under which Python finds the extension.
pub(crate) const EXTENSION: &str = if cfg!(windows) { "_core.pyd" } else { "_core.abi3.so" };

/// Builds the extension and nothing else.
pub(crate) const ALONE: &[&str] = &["--package", "bireme-python"];

/// Builds the extension as a part of what `cargo test --workspace` has built: with the same features
/// of the same dependencies, so that the engine is not compiled a second time.
pub(crate) const AFTER_TESTS: &[&str] = &["--workspace", "--lib", "--tests"];

/// Builds the extension by a selection of cargo's targets and runs pytest; `args` go to pytest.
pub(crate) fn run(selection: &[&str], args: &[String]) -> Result<()> {
    let tools = Venv::with_tools()?;
    step("build the extension", || build_extension(selection))?;
    // Tests on cards look for its libraries in the build folder.
    step("build the emulated card", || {
        run_command(&mut cargo(&["build", "--locked", "--package", "bireme-emulator"]))
    })?;
    step("pytest", || {
        let path = root().join(PACKAGE_PARENT);
        // Several at a time; the tests of one file stay in one process, for they share what is slow to make.
        let pytest =
            ["-m", "pytest", "-q", "--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile"];
        run_command(tools.python().args(pytest).args(args).env("PYTHONPATH", path))
    })
}

/// Builds `bireme._core` in the development profile and puts it into the package.
pub(crate) fn build_extension(selection: &[&str]) -> Result<()> {
    run_command(cargo(&["build", "--locked"]).args(selection))?;
    let built = target_dir()?.join("debug").join(format!("{DLL_PREFIX}_core{DLL_SUFFIX}"));
    let package = root().join(PACKAGE_PARENT).join("bireme");
    // Renamed into place: a link is replaced instead of written through, and a Python that runs
    // keeps the file it has mapped.
    let aside: PathBuf = package.join(format!("{EXTENSION}.new.so"));
    fs::copy(&built, &aside)
        .and_then(|_| fs::rename(&aside, package.join(EXTENSION)))
        .with_context(|| format!("cannot put `{}` into the package", built.display()))
}
