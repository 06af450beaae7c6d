//! Launches of kernels.
#![expect(unsafe_code, reason = "kernels are run")]

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::{
    self, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUresult,
};

use super::calls::explain;
use super::error::{Error, Result};
use super::modules::Function;
use super::stream::Stream;

/// When a kernel may start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// When all work before it is done.
    InOrder,
    /// While the kernel before it still runs.
    Early,
}

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
        // SAFETY: the caller's promise.
        unsafe { self.launch_as(function, grid, block, shared, args, Start::InOrder) }
    }

    /// As [`Stream::launch`]; the kernel may start while the one before it on this stream still runs, for it waits for
    /// that itself. One that does not is launched in order.
    ///
    /// # Safety
    /// As there; and what is before it on this stream must be a kernel.
    pub unsafe fn launch_early(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: u32,
        shared: u32,
        args: &mut [*mut c_void],
    ) -> Result<()> {
        let start = if function.waits() { Start::Early } else { Start::InOrder };
        // SAFETY: the caller's promise.
        unsafe { self.launch_as(function, grid, block, shared, args, start) }
    }

    unsafe fn launch_as(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: u32,
        shared: u32,
        args: &mut [*mut c_void],
        start: Start,
    ) -> Result<()> {
        let card = self.card();
        card.enter()?;
        function.allow_shared(card, shared)?;
        card.set_last_launch(function.name());
        let mut early = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: Default::default(),
            value: CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared,
            hStream: self.handle(),
            attrs: &raw mut early,
            numAttrs: u32::from(start == Start::Early),
        };
        // SAFETY: the caller cares for the arguments; the driver copies them before it returns.
        let code = unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                function.handle(),
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
            code => card.check("cuLaunchKernelEx", code),
        }
    }
}
