//! The line of user code that asked for an op: the innermost frame outside the package.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// `file:line` of the innermost Python frame that is not this package's; `None` without one.
pub(crate) fn site(py: Python<'_>) -> Option<String> {
    static GETFRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let getframe = GETFRAME
        .get_or_try_init(py, || PyResult::Ok(py.import("sys")?.getattr("_getframe")?.unbind()))
        .ok()?;
    let mut frame = getframe.bind(py).call0().ok()?;
    let package = package(py);
    loop {
        let code = frame.getattr("f_code").ok()?;
        let file = code.getattr("co_filename").ok()?;
        let file = file.cast::<PyString>().ok()?.to_str().ok()?;
        if package.is_empty() || !file.starts_with(package) {
            let line: u32 = frame.getattr("f_lineno").ok()?.extract().ok()?;
            return Some(format!("{file}:{line}"));
        }
        frame = frame.getattr("f_back").ok().filter(|frame| !frame.is_none())?;
    }
}

/// The folder of the package, with a slash at its end.
fn package(py: Python<'_>) -> &str {
    static PACKAGE: PyOnceLock<String> = PyOnceLock::new();
    PACKAGE.get_or_init(py, || {
        let file = py.import("bireme").and_then(|package| package.getattr("__file__"));
        let file: String = file.and_then(|file| file.extract()).unwrap_or_default();
        file.rfind(std::path::MAIN_SEPARATOR).map_or_else(String::new, |at| file[..=at].to_owned())
    })
}
