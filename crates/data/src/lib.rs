//! Turns files into batches.
//!
//! A [`Slot`] is one input of a model. Parsers turn lines into [`Samples`], which hold a column for
//! each slot; datasets decide which samples are read when and in what order, and cut them into a
//! [`Batch`] of tensors, which a step of the engine takes as it is.

mod batch;
mod error;
pub mod parse;
mod samples;
mod slot;
pub mod source;

pub use batch::Batch;
pub use error::{Error, Result};
pub use samples::{Column, Samples, Values};
pub use slot::{Kind, Slot};
