//! Who a process is in a job with servers, as the environment of its launcher says.

use std::collections::HashMap;

use bireme_fleet::{Environment, RoleMaker};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Paddle's number of the role, the number among its processes, how many trainers there are, the
/// endpoints of servers and of trainers, and those of heter workers by stage.
type Identity = (i32, u32, u32, Vec<String>, Vec<String>, Vec<Vec<String>>);

/// The role that these variables give a process.
#[pyfunction]
pub(crate) fn environment_role(variables: HashMap<String, String>) -> PyResult<Identity> {
    let pairs = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let role = Environment::of(pairs).and_then(|read| RoleMaker::from_environment(&read));
    let role = role.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((
        role.role().code(),
        role.index(),
        role.worker_num(),
        role.server_endpoints().to_vec(),
        role.worker_endpoints().to_vec(),
        role.heter_stages().to_vec(),
    ))
}
