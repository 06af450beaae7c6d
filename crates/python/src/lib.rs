//! `bireme._core`: the engine as a Python module.
//!
//! One file a wrapped type; each method extracts its arguments, enters the engine and wraps what
//! comes back. What a user sees (names, defaults, documentation) is Python, in `python/bireme`.

mod console;

use pyo3::pymodule;

/// The module that Python imports.
#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::console::main;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
