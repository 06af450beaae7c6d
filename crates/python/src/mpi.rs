//! MPI for `MPISymetricRoleMaker`, where it was built in, and what a role follows from in any case.

use bireme_engine::Error;
use bireme_fleet::Role;
use bireme_fleet::mpi::{self, Group};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::enter;

/// Role, number and servers of a process: `(is_server, index, server_endpoints)`.
type Place = (bool, u32, Vec<String>);

/// This process among those that `mpirun` started.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct Mpi {
    started: mpi::Mpi,
}

#[pymethods]
impl Mpi {
    /// Starts MPI; every process must.
    #[new]
    fn new(py: Python<'_>) -> PyResult<Mpi> {
        Ok(Mpi { started: enter(py, || mpi::Mpi::start().map_err(Error::remote))? })
    }

    /// Whether this build can ask MPI itself.
    #[staticmethod]
    fn is_built_in() -> bool {
        mpi::IS_BUILT_IN
    }

    /// The number of this process among all.
    #[getter]
    fn rank(&self) -> usize {
        self.started.rank()
    }

    /// How many processes there are.
    #[getter]
    fn size(&self) -> usize {
        self.started.size()
    }

    /// What each process of a group ("all" or "role") brings, by rank.
    fn all_gather<'py>(
        &self,
        py: Python<'py>,
        group: &str,
        data: &[u8],
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let group = group_of(group)?;
        let parts = enter(py, || self.started.all_gather(group, data).map_err(Error::remote))?;
        Ok(parts.iter().map(|part| PyBytes::new(py, part)).collect())
    }

    /// Waits for all processes of a group.
    fn barrier(&self, py: Python<'_>, group: &str) -> PyResult<()> {
        let group = group_of(group)?;
        enter(py, || self.started.barrier(group).map_err(Error::remote))
    }

    /// Ends MPI for this process.
    fn finalize(&self, py: Python<'_>) -> PyResult<()> {
        enter(py, || self.started.finalize().map_err(Error::remote))
    }
}

/// The role that follows from a rank and the addresses of all processes.
#[pyfunction]
pub(crate) fn symmetric_role(rank: usize, hosts: Vec<String>) -> PyResult<Place> {
    let role = mpi::symmetric(rank, &hosts);
    let role = role.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((role.role() == Role::Server, role.index(), role.server_endpoints().to_vec()))
}

/// The address under which other machines find this one.
#[pyfunction]
pub(crate) fn own_address(py: Python<'_>) -> String {
    // Names may be looked up far away.
    py.detach(mpi::own_address)
}

fn group_of(name: &str) -> PyResult<Group> {
    match name {
        "all" => Ok(Group::All),
        "role" => Ok(Group::Role),
        other => {
            Err(PyValueError::new_err(format!("there is no group `{other}`: `all` or `role`")))
        }
    }
}
