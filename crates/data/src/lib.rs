//! Turns files into batches.
//!
//! A [`Slot`] is one input of a model. Parsers turn lines into [`Samples`], which hold a column for
//! each slot; datasets decide which samples are read when and in what order, and cut them into a
//! [`Batch`] of tensors, which a step of the engine takes as it is.

mod agree;
mod batch;
mod error;
mod file_share;
mod input;
mod memory;
mod order;
pub mod parse;
mod queue;
mod samples;
mod slot;
pub mod source;
pub mod table;
#[cfg(test)]
mod testing;
pub mod train;

pub use agree::{Agree, Agreed};
pub use batch::Batch;
pub use error::{Error, Result};
pub use file_share::{Counters, FileShare};
pub use input::{Batches, Closer, Files, Input, Rows};
pub use memory::{
    Contents, Exchange, KeySlot, KeyedPart, MemoryDataset, MemorySettings, Merged, RowNumbers,
    Wanted,
};
pub use queue::{QueueDataset, QueueSettings, Shuffle};
pub use samples::{Column, Samples, Values};
pub use slot::{CONTENT, INS_ID, Kind, Slot};
pub use train::{Progress, Summary, Training, train};
