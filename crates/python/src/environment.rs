//! The table of environment variables, for those who read them in Python.

use bireme_fleet::environment::variables::GROUPS;
use pyo3::pyfunction;

/// Every environment variable: its name, what holds without it, what it says.
#[pyfunction]
pub(crate) fn environment_variables() -> Vec<(&'static str, &'static str, &'static str)> {
    let all = GROUPS.iter().flat_map(|group| group.variables);
    all.map(|variable| (variable.name, variable.default, variable.meaning)).collect()
}
