//! Where a program runs.

use crate::{Error, Result};

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The processors of this machine.
    Cpu,
    /// One GPU, by number.
    Cuda(u32),
}

impl Place {
    /// Whether this build can run there.
    ///
    /// # Errors
    /// For a GPU: this build has no GPU kernels.
    pub fn check(self) -> Result<()> {
        match self {
            Place::Cpu => Ok(()),
            Place::Cuda(device) => Err(Error::Device {
                problem: format!("no GPU {device}: this build runs on CPUs only, use `Place::Cpu`"),
            }),
        }
    }
}
