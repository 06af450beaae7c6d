//! `cargo xtask wheel`: the wheel that users install, built and tried in a bare environment.
//!
//! What is tried is the wheel and nothing of the checkout: the smoke test runs outside of it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::{run as run_command, step, target_dir};
use crate::venv::{self, Venv};

const SMOKE_TEST: &str = "tools/wheel/smoke.py";

/// Builds the release wheel, installs it and runs the smoke test; prints the wheel's path.
pub(crate) fn run() -> Result<()> {
    let wheel = build_and_try("release", "wheels")?;
    println!("{}", wheel.display());
    Ok(())
}

/// The same with a wheel of the development profile, most of which the tests have built: as good for
/// finding what a wheel lacks, and quicker.
pub(crate) fn try_development() -> Result<()> {
    build_and_try("dev", "wheels-dev").map(drop)
}

fn build_and_try(profile: &str, folder: &str) -> Result<PathBuf> {
    let smoke_test = venv::script(SMOKE_TEST)?;
    let tools = Venv::with_tools()?;
    let folder = target_dir()?.join(folder);
    step("build the wheel", || {
        // An old wheel beside the new one would make the choice a guess.
        remove_wheels(&folder)?;
        let args = ["-m", "maturin", "build", "--locked", "--quiet", "--profile", profile, "--out"];
        run_command(tools.python().args(args).arg(&folder))
    })?;
    let wheel = only_wheel(&folder)?;
    step("try the wheel", || {
        let bare = Venv::bare("python-wheel")?;
        bare.pip_install("the wheel", &[&wheel.to_string_lossy()])?;
        run_command(bare.python().arg("-I").arg(smoke_test).current_dir(&folder))
    })?;
    Ok(wheel)
}

fn remove_wheels(folder: &Path) -> Result<()> {
    for wheel in wheels(folder)? {
        fs::remove_file(&wheel).with_context(|| format!("cannot remove `{}`", wheel.display()))?;
    }
    Ok(())
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let mut found = wheels(folder)?;
    match found.pop() {
        Some(wheel) if found.is_empty() => Ok(wheel),
        _ => bail!("`{}` does not hold exactly one wheel", folder.display()),
    }
}

fn wheels(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).collect())
}
