//! `bireme._core`: the engine as a Python module.
//!
//! One file a wrapped type; each method extracts its arguments, enters the engine and wraps what
//! comes back. What a user sees (names, defaults, documentation) is Python, in `python/bireme`.

use pyo3::prelude::*;

/// The module that Python imports.
#[pymodule]
mod _core {}
