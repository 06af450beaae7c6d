//! The `bireme` command for the Python package's console script.
//!
//! The wheel thus needs one binary only: the command line is the same library as the executable.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the `bireme` command; `argv` begins with the program's name. Returns the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, argv: Vec<OsString>) -> u8 {
    py.detach(|| bireme_cli::run_from(argv))
}
