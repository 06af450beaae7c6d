//! The CUDA driver, cuBLASLt and NCCL as safe types: cards, memory, streams, graphs, kernels, products, exchanges.
//!
//! Nothing is linked: [`libraries`] finds NVIDIA's libraries at run time, or the emulated card's.
//! Every call returns an [`Error`] rather than panicking.

pub mod libraries;

mod calls;
mod card;
mod compiled;
mod counters;
mod error;
mod event;
mod foreign;
mod graph;
mod launch;
mod memory;
mod modules;
mod nccl;
mod product;
mod stream;

pub use card::{Card, MemoryFigures};
pub use error::{Error, Result};
pub use event::{Event, Timing};
pub use graph::Graph;
pub use memory::{Memory, Pinned, Span};
pub use modules::Function;
pub use nccl::{Communicator, Exchanged, GroupName, Reduce};
pub use product::{Compute, Element, Epilogue, Operand, ProductSpec, Products};
pub use stream::Stream;
pub(crate) use stream::is_page_locked;
