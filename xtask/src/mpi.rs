//! `cargo xtask mpi`: the role maker of MPI under a real `mpirun`.
//!
//! Not a part of the gate, since most machines have no MPI: then it says so and succeeds.

use anyhow::Result;

use crate::process::{cargo, command, root, run as run_command, step, succeeds};
use crate::pytest::build_extension;
use crate::venv::Venv;

/// Four processes, on however few cores, also in a container where everybody is root.
const RUNNER: &str = r#"target."cfg(all())".runner = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4"]"#;

/// Builds with MPI and runs everything that needs it; `args` go to pytest.
pub(crate) fn run(args: &[String]) -> Result<()> {
    for program in ["mpicc", "mpirun"] {
        if !succeeds(command(program).arg("--version")) {
            println!(
                "skipped: no `{program}` on this machine (Debian: libopenmpi-dev, openmpi-bin)"
            );
            return Ok(());
        }
    }
    let venv = Venv::with_mpi()?;
    step("the binding under mpirun", || {
        let test = ["test", "--locked", "-p", "bireme-fleet", "--features", "mpi", "--test", "mpi"];
        run_command(cargo(&test).args(["--config", RUNNER]))
    })?;
    step("build the extension with MPI", || {
        build_extension(&["--package", "bireme-python", "--features", "mpi"])
    })?;
    step("training under mpirun", || {
        let pytest = ["-m", "pytest", "-q", "python/tests/test_mpi.py"];
        let path = root().join("python");
        run_command(
            venv.python().args(pytest).args(args).env("PYTHONPATH", path).env("JOB_MPI", "1"),
        )
    })
}
