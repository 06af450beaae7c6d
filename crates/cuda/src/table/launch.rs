//! Launches of a table's kernels.
#![expect(unsafe_code, reason = "kernels are run")]

use std::ffi::c_void;

use bytemuck::NoUninit;

use crate::driver::{Result, Stream};

/// Threads of a block, as in `kernels/table.cu`.
const THREADS: usize = 256;

/// Blocks beyond which kernels over elements loop.
const MAX_BLOCKS: usize = 1 << 16;

/// A kernel and its arguments, in their order.
#[must_use]
pub(super) struct Launch {
    kernel: String,
    /// In words, so that any type is aligned.
    args: Vec<Vec<u64>>,
}

impl Launch {
    pub(super) fn new(kernel: impl Into<String>) -> Launch {
        Launch { kernel: kernel.into(), args: Vec::new() }
    }

    /// A number, an address or a structure.
    pub(super) fn value<T: NoUninit>(mut self, value: T) -> Launch {
        let bytes = bytemuck::bytes_of(&value);
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        self.args.push(words);
        self
    }

    /// Gives it to a stream, with a thread for each of `count` keys.
    pub(super) fn each(self, stream: &Stream, count: usize) -> Result<()> {
        self.blocks(stream, count.div_ceil(THREADS))
    }

    /// Gives it to a stream, with a thread for each of `count` elements up to a limit beyond which it loops.
    pub(super) fn over(self, stream: &Stream, count: usize) -> Result<()> {
        self.blocks(stream, count.div_ceil(THREADS).min(MAX_BLOCKS))
    }

    fn blocks(self, stream: &Stream, blocks: usize) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let function = stream.card().function(&self.kernel)?;
        let mut pointers: Vec<*mut c_void> =
            self.args.iter().map(|words| words.as_ptr().cast_mut().cast()).collect();
        let grid = [blocks as u32, 1, 1];
        // SAFETY: the callers in this module give what the kernels take, in memory that the table holds or that its
        // caller keeps until the stream has done its work.
        unsafe { stream.launch(&function, grid, THREADS as u32, 0, &mut pointers) }
    }
}
