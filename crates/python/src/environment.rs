//! What the environment says: the table of its variables, for those who read them in Python, and
//! what the launcher's folder of this job remembers.

use bireme_fleet::environment::variables::GROUPS;
use pyo3::pyfunction;

use crate::jobs;

/// Every environment variable: its name, what holds without it, what it says.
#[pyfunction]
pub(crate) fn environment_variables() -> Vec<(&'static str, &'static str, &'static str)> {
    let all = GROUPS.iter().flat_map(|group| group.variables);
    all.map(|variable| (variable.name, variable.default, variable.meaning)).collect()
}

/// The folder of the last complete checkpoint that this job's servers have saved, as their launcher
/// remembers it.
#[pyfunction]
pub(crate) fn last_checkpoint() -> Option<String> {
    jobs::last_saved()
}
