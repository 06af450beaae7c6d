//! `cargo xtask submit`: what `bireme submit` prints, held against the schedulers' own rules.
//!
//! The manifests and scripts are the golden files, which `cargo test -p bireme-launch` holds against
//! the command; so this needs no build.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process::{command, root, run as run_command};
use crate::venv::{self, Venv};

/// Checks all golden files.
pub(crate) fn run() -> Result<()> {
    let (manifests, scripts) = (golden("yaml")?, golden("sh")?);
    let venv = Venv::with_schemas()?;
    let check = venv::script("tools/schema/check.py")?;
    run_command(venv.python().arg(check).args(&manifests))?;
    for script in &scripts {
        run_command(command("bash").arg("-n").arg(script))?;
    }
    run_command(command(venv.program("shellcheck")).arg("--severity=warning").args(&scripts))
}

fn golden(ending: &str) -> Result<Vec<PathBuf>> {
    let folder = root().join("crates/launch/tests/golden");
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == ending) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
