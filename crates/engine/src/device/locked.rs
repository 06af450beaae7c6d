//! Tensors in page-locked memory: a card copies them by itself, which is the quickest way for feeds of the host.

#![expect(unsafe_code, reason = "a tensor lies in memory that is kept beside it")]

use std::ops::Deref;
use std::sync::Arc;

use bireme_ir::DType;

use super::{Device, PageLocked};
use crate::Result;
use crate::tensor::{Buffer, Dims, Tensor};

/// A tensor in page-locked memory of its own, of which nothing is known. Who has a card copy from it or to it
/// ([`Tensor::page_locked`]) leaves it alone until the copy is done.
///
/// # Errors
/// When no more memory can be page-locked, or the device has none.
pub fn locked_room(device: &dyn Device, dtype: DType, dims: Dims) -> Result<Tensor> {
    let memory = device.page_locked_room(dims.numel() * dtype.size())?;
    // SAFETY: the memory is new, and goes to this tensor alone.
    Ok(Tensor::window(dtype, dims, unsafe { Buffer::locked(memory) }))
}

/// A tensor of the host, in page-locked memory.
#[derive(Debug)]
pub struct LockedTensor {
    /// A window into `memory`, which is dropped after it.
    tensor: Tensor,
    memory: Arc<dyn PageLocked>,
}

impl LockedTensor {
    /// A copy of `tensor`, for `device` and others of its kind.
    ///
    /// # Errors
    /// When no more memory can be page-locked, or the device has none.
    pub fn new(device: &dyn Device, tensor: &Tensor) -> Result<LockedTensor> {
        let memory = device.page_locked(tensor.as_bytes())?;
        // SAFETY: the memory holds a copy of the tensor's bytes, and nobody writes it as long as it is held here.
        let mut copy = unsafe { Tensor::foreign(tensor.dtype(), tensor.dims(), memory.start())? };
        copy.set_lod(tensor.lod());
        Ok(LockedTensor { tensor: copy, memory })
    }

    /// The memory it lies in.
    pub fn memory(&self) -> &Arc<dyn PageLocked> {
        &self.memory
    }
}

impl Deref for LockedTensor {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}
