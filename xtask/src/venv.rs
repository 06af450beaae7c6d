//! A virtual environment with real Paddle, outside the repository, made on first use.
//!
//! An interrupted installation is repaired by the next run: what counts is whether the pinned
//! versions are there, not whether the folder is. A folder that is no virtual environment is never
//! cleared.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{command, output, root, run, step, succeeds};

/// Pinned together: Paddle 2.6.2 is the last release with parameter servers for these Pythons, and
/// it needs this protobuf, a NumPy before 2, and setuptools at run time.
const PACKAGES: &[&str] = &["paddlepaddle==2.6.2", "protobuf==4.25.8", "numpy<2", "setuptools"];

/// The environment's folder in the cache.
const FOLDER: &str = "paddle-2.6.2";

/// Tried in this order; Paddle 2.6.2 has wheels for no others.
const PYTHONS: &[&str] =
    &["python3.11", "python3.10", "python3.12", "python3.9", "python3.8", "python3", "python"];

/// Exits with zero when `PACKAGES` are installed; reads metadata only, since importing Paddle
/// takes seconds.
const PROBE: &str = "\
from importlib.metadata import version
version('setuptools')
ready = (version('paddlepaddle') == '2.6.2' and version('protobuf') == '4.25.8'
         and int(version('numpy').split('.')[0]) < 2)
raise SystemExit(0 if ready else 1)";

/// A virtual environment that is ready to use.
pub(crate) struct Venv {
    dir: PathBuf,
}

impl Venv {
    /// The environment with Paddle, made or repaired if need be.
    pub(crate) fn with_paddle() -> Result<Venv> {
        let venv = Venv { dir: cache_dir()?.join(FOLDER) };
        if !venv.is_ready() {
            let name = format!("install Paddle in {}", venv.dir.display());
            step(&name, || venv.install())?;
        }
        Ok(venv)
    }

    /// Its Python, started in the repository root, with the cache folder in `BIREME_CACHE`.
    pub(crate) fn python(&self) -> Command {
        let bin = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
        let mut python = command(self.dir.join(bin));
        // Scripts must not leave compiled files in the checkout.
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        if let Some(cache) = self.dir.parent() {
            python.env("BIREME_CACHE", cache);
        }
        python
    }

    fn is_ready(&self) -> bool {
        succeeds(self.python().args(["-c", PROBE]))
    }

    fn install(&self) -> Result<()> {
        let python = find_python()?;
        check_clearable(&self.dir)?;
        run(command(&python).args(["-m", "venv", "--clear"]).arg(&self.dir))?;
        run(self.python().args(["-m", "pip", "install", "--quiet"]).args(PACKAGES)).context(
            "cannot install Paddle: is PyPI reachable? \
             The environment of pip applies (PIP_INDEX_URL, PIP_FIND_LINKS)",
        )?;
        if !self.is_ready() {
            bail!("pip succeeded, but the versions are not those of {PACKAGES:?}");
        }
        Ok(())
    }
}

/// That nothing but an environment is lost when `dir` is cleared.
fn check_clearable(dir: &Path) -> Result<()> {
    // Links count as they are: what they lead to is somebody's.
    let absent = dir.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    if !absent && !dir.join("pyvenv.cfg").is_file() {
        bail!(
            "`{}` is in the way, and is no virtual environment: remove it, or set `BIREME_CACHE`",
            dir.display()
        );
    }
    Ok(())
}

/// The full path of a script of the repository; an error where the checkout does not have it.
pub(crate) fn script(path: &str) -> Result<PathBuf> {
    let full = root().join(path);
    if !full.is_file() {
        bail!("this checkout has no `{path}`: nothing to run");
    }
    Ok(full)
}

/// The folder for everything that is downloaded or built aside.
fn cache_dir() -> Result<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let dir = if let Some(dir) = variable("BIREME_CACHE") {
        PathBuf::from(dir)
    } else if let Some(cache) = variable("XDG_CACHE_HOME") {
        Path::new(&cache).join("bireme")
    } else {
        let home = variable("HOME").context("`HOME` is not set: set `BIREME_CACHE` to a folder")?;
        Path::new(&home).join(".cache/bireme")
    };
    // Commands start in the repository root, wherever we were started.
    std::path::absolute(&dir).with_context(|| format!("no such folder `{}`", dir.display()))
}

/// `BIREME_PYTHON` if set, else the first Python that Paddle has wheels for.
fn find_python() -> Result<PathBuf> {
    if let Some(python) = env::var_os("BIREME_PYTHON") {
        let python = PathBuf::from(python);
        if !is_supported(&python) {
            bail!("`BIREME_PYTHON` ({}) is not a Python 3.8 to 3.12", python.display());
        }
        return Ok(python);
    }
    PYTHONS.iter().map(PathBuf::from).find(|python| is_supported(python)).context(
        "no Python 3.8 to 3.12 found: install one, or set `BIREME_PYTHON` to its full path",
    )
}

fn is_supported(python: &Path) -> bool {
    // A launcher shim of a version that is not installed exists but fails: ask, don't look.
    let args = ["-c", "import sys, venv; print(*sys.version_info[:2])"];
    succeeds(command(python).arg("--version"))
        && output(command(python).args(args)).is_ok_and(|version| has_wheels(&version))
}

/// Whether a version, printed as `3 11`, is one that Paddle 2.6.2 has wheels for.
fn has_wheels(version: &str) -> bool {
    let mut numbers = version.split_whitespace().map(|number| number.parse::<u32>().ok());
    numbers.next() == Some(Some(3)) && matches!(numbers.next(), Some(Some(8..=12)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_exist_for_python_3_8_to_3_12() {
        assert!(has_wheels("3 8\n"));
        assert!(has_wheels("3 12\n"));
        for version in ["3 7", "3 13", "2 7", "3", "", "x y"] {
            assert!(!has_wheels(version), "{version}");
        }
    }

    #[test]
    fn only_environments_are_cleared() {
        let dir = env::temp_dir().join(format!("bireme-xtask-venv-{}", std::process::id()));
        check_clearable(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        let refused = check_clearable(&dir);
        std::fs::write(dir.join("pyvenv.cfg"), "").unwrap();
        let accepted = check_clearable(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(refused.unwrap_err().to_string().contains("is no virtual environment"));
        accepted.unwrap();
    }

    #[test]
    fn missing_script_is_named() {
        let error = script("tools/none.py").unwrap_err().to_string();
        assert_eq!(error, "this checkout has no `tools/none.py`: nothing to run");
    }
}
