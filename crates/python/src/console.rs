//! The `bireme` command for the Python package's console script.
//!
//! The wheel thus needs one binary only: the command line is the same library as the executable.

use std::ffi::OsString;

use bireme_cli::Host;
use pyo3::prelude::*;

/// Runs the `bireme` command; `argv` begins with the program's name, `command` is what runs it in
/// a process of its own. Returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, argv: Vec<OsString>, command: Vec<OsString>) -> u8 {
    py.detach(|| bireme_cli::run_from(argv, &Host::new(command)))
}
