//! Dense parameters on a server: each with the ops that update it, under a lock of its own.
//!
//! A [`Block`] is one optimize block of a server's program: its variables are its own, so blocks
//! are updated in parallel. What several blocks read and none writes (learning rates) is in
//! [`Shared`].

mod ahead;
mod assembly;
mod block;
mod merge;
mod ranges;
mod rows;
mod shared;
mod snapshot;
#[cfg(test)]
mod tests;
mod update;

pub use ahead::Ahead;
pub use assembly::Assembly;
pub use block::{Block, BlockSpec};
pub use shared::Shared;
pub use update::BlockUpdate;
