//! Bytes of any length between processes: what Python makes of its objects.

use bireme_fleet::eager::tensors::remote;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::ProcessGroup;
use crate::error::enter;

#[pymethods]
impl ProcessGroup {
    /// The bytes of all ranks.
    fn all_gather_bytes<'py>(
        &self,
        py: Python<'py>,
        part: Vec<u8>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let all = enter(py, || self.group.all_gather_varied(&part).map_err(remote))?;
        Ok(all.iter().map(|part| PyBytes::new(py, part)).collect())
    }

    /// The bytes that each rank has for this one.
    fn all_to_all_bytes<'py>(
        &self,
        py: Python<'py>,
        parts: Vec<Vec<u8>>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let all = enter(py, || {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            self.group.all_to_all_varied(&parts).map_err(remote)
        })?;
        Ok(all.iter().map(|part| PyBytes::new(py, part)).collect())
    }
}
