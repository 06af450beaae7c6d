//! The commands `bireme` and `fleetrun` for the Python package's console scripts.
//!
//! The wheel thus needs one binary only: the command line is the same library as the executables.

use std::ffi::OsString;

use bireme_cli::{Flavor, Host};
use pyo3::prelude::*;

use crate::card;

/// Runs the `bireme` command; `argv` begins with the program's name, `command` is what runs it in
/// a process of its own, `python` what runs a script. Returns the exit code.
#[pyfunction]
pub(crate) fn main(
    py: Python<'_>,
    argv: Vec<OsString>,
    command: Vec<OsString>,
    python: Vec<OsString>,
) -> PyResult<u8> {
    // `bireme train --device gpu` finds NVIDIA's libraries where scripts do.
    card::find_packages(py)?;
    Ok(py.detach(|| bireme_cli::run_from(argv, &Host::new(command).with_python(python))))
}

/// Runs `fleetrun` with `argv`, which begins with the name that is shown; `old` is for the
/// defaults of `launch_ps`. Returns the exit code.
#[pyfunction]
pub(crate) fn launch(
    py: Python<'_>,
    argv: Vec<OsString>,
    command: Vec<OsString>,
    python: Vec<OsString>,
    old: bool,
) -> u8 {
    let host = Host::new(command).with_python(python);
    let flavor = if old { Flavor::LaunchPs } else { Flavor::Fleetrun };
    let (program, arguments) = match argv.split_first() {
        Some((program, arguments)) => (program.to_string_lossy(), arguments),
        None => ("fleetrun".into(), &[][..]),
    };
    py.detach(|| bireme_cli::fleetrun_from(&program, arguments, &host, flavor))
}
