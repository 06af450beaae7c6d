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
    /// Whether the engine can run there by itself.
    ///
    /// # Errors
    /// For a GPU, which the engine knows only as a [`crate::device::Device`] that it is given.
    pub fn check(self) -> Result<()> {
        match self {
            Place::Cpu => Ok(()),
            Place::Cuda(device) => Err(Error::Device {
                problem: format!(
                    "no GPU {device}: use `Executor::on` with a card of `bireme_cuda::open`, or `Place::Cpu`"
                ),
            }),
        }
    }
}
