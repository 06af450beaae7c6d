//! Launches of kernels.
#![expect(unsafe_code, reason = "kernels are run")]

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{self, CUresult};

use super::calls::explain;
use super::error::{Error, Result};
use super::modules::Function;
use super::stream::Stream;

impl Stream {
    /// Launches a kernel: `grid` blocks of `block` threads, with `shared` bytes of dynamic shared memory.
    ///
    /// # Safety
    /// `args` must point to one value for each parameter of the kernel, of its type. Addresses among
    /// them must be memory of this card, large enough for the kernel, until the work has been waited
    /// for; in a recording, as long as its graph is replayed. The function must be of this card.
    pub unsafe fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: u32,
        shared: u32,
        args: &mut [*mut c_void],
    ) -> Result<()> {
        let card = self.card();
        card.enter()?;
        function.allow_shared(card, shared)?;
        card.set_last_launch(function.name());
        // SAFETY: the caller cares for the arguments; the driver copies them before it returns.
        let code = unsafe {
            sys::cuLaunchKernel(
                function.handle(),
                grid[0],
                grid[1],
                grid[2],
                block,
                1,
                1,
                shared,
                self.handle(),
                args.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        match code {
            CUresult::CUDA_ERROR_INVALID_VALUE | CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => {
                let why = format!(
                    "{} ({} blocks of {block} threads, {shared} bytes shared)",
                    explain(code),
                    grid.iter().map(|count| u64::from(*count)).product::<u64>()
                );
                Err(Error::Launch { kernel: function.name().clone(), why })
            }
            code => card.check("cuLaunchKernel", code),
        }
    }
}
