//! Feeds that are assembled in page-locked memory, one behind the other, so that a card takes all of them in one copy
//! while it still works on the step before. Where no memory can be page-locked, feeds lie in ordinary memory.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bireme_ir::DType;

use super::value::bytes_with_room;
use super::{Device, PageLocked};
use crate::tensor::{Buffer, Dims, Tensor};

/// Where a feed begins in a block: as a card's own memory does.
const ALIGN: usize = 256;

/// Where feeds for a card are assembled. Shared by all who assemble them.
pub struct FeedMemory {
    device: Arc<dyn Device>,
    /// Why there is no page-locked memory, once that is known.
    refused: OnceLock<String>,
    is_told: AtomicBool,
}

impl FeedMemory {
    /// Memory for feeds of a card.
    pub fn new(device: &Arc<dyn Device>) -> FeedMemory {
        let device = Arc::clone(device);
        FeedMemory { device, refused: OnceLock::new(), is_told: AtomicBool::new(false) }
    }

    /// Why feeds lie in ordinary memory, the first time that somebody asks; none as long as they do not.
    pub fn problem(&self) -> Option<String> {
        let problem = self.refused.get()?;
        let is_first = !self.is_told.swap(true, Ordering::Relaxed);
        is_first.then(|| {
            format!(
                "batches are copied to {} from ordinary memory, which is slower: {problem}; a larger limit of \
                 locked memory (`ulimit -l`), or smaller batches, may help",
                self.device.describe()
            )
        })
    }

    /// Page-locked memory; none where there is none, which is not asked for again then.
    fn take(&self, bytes: usize) -> Option<Arc<dyn PageLocked>> {
        if self.refused.get().is_some() {
            return None;
        }
        match self.device.page_locked_room(bytes) {
            Ok(memory) => Some(memory),
            Err(error) => {
                self.refused.get_or_init(|| error.to_string());
                None
            }
        }
    }
}

impl fmt::Debug for FeedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory for feeds of {}", self.device.describe())
    }
}

/// The memory of the feeds of one step; used again for the next.
#[derive(Debug, Default)]
pub struct FeedBlock(Option<Arc<dyn PageLocked>>);

impl FeedBlock {
    /// Gives tensors types and shapes, and places one behind the other; what they hold is unspecified. They are tensors
    /// of this block alone, or of none.
    pub fn lay_out(
        &mut self,
        memory: &FeedMemory,
        tensors: &mut [Tensor],
        shapes: &[(DType, Dims)],
    ) {
        if self.0.is_none() && memory.refused.get().is_some() {
            let both = tensors.iter_mut().zip(shapes);
            return both.for_each(|(tensor, (dtype, dims))| tensor.resize(*dtype, *dims));
        }
        let mut end = 0;
        let places = shapes.iter().map(|(dtype, dims)| {
            let at = end;
            end += bytes_with_room(*dtype, dims, None).next_multiple_of(ALIGN);
            at
        });
        let places: Vec<usize> = places.collect();
        let is_in_place = |block: &Arc<dyn PageLocked>| {
            let at = |at: &usize| block.start().as_ptr().wrapping_add(*at);
            let starts = tensors.iter().map(|tensor| tensor.start().as_ptr());
            starts.eq(places.iter().map(at))
                && tensors
                    .iter()
                    .zip(shapes)
                    .all(|(tensor, shape)| (tensor.dtype(), tensor.dims()) == (shape.0, shape.1))
        };
        if self.0.as_ref().is_some_and(is_in_place) {
            return;
        }
        for (tensor, (dtype, _)) in tensors.iter_mut().zip(shapes) {
            let mut empty = Tensor::empty(*dtype);
            empty.take_lod_memory(tensor);
            *tensor = empty;
        }
        // A tensor that somebody kept has its memory for itself.
        let is_free =
            |block: &Arc<dyn PageLocked>| block.bytes() >= end && Arc::strong_count(block) == 1;
        if !self.0.as_ref().is_some_and(is_free) {
            self.0 = memory.take(end.next_power_of_two());
        }
        for ((tensor, (dtype, dims)), at) in tensors.iter_mut().zip(shapes).zip(places) {
            match &self.0 {
                Some(block) => {
                    let bytes = dims.numel() * dtype.size();
                    let mut window =
                        Tensor::window(*dtype, *dims, Buffer::locked_window(block, at, bytes));
                    window.take_lod_memory(tensor);
                    *tensor = window;
                }
                None => tensor.resize(*dtype, *dims),
            }
        }
    }

    /// Whether the feeds lie in page-locked memory.
    pub fn is_page_locked(&self) -> bool {
        self.0.is_some()
    }
}
