//! Runs ops on NVIDIA cards.
//!
//! An op becomes a list of work for the card (`lower/`, one file a family of ops): kernels of our own
//! (`kernels/`, CUDA C compiled ahead of time), products of cuBLASLt, copies. What that list says depends on
//! shapes and attributes alone, so it is made once, bound to addresses (`bound.rs`), and given to the card as it is or
//! recorded as a graph whose branches run side by side (`lanes.rs`). The driver's libraries are loaded at run time
//! ([`driver`]).

mod bound;
mod cache;
mod device;
mod distinct;
pub mod driver;
mod exchange;
pub mod figures;
mod lanes;
mod lower;
mod merge;
mod page_locked;
mod paper;
mod pool;
mod profile;
mod recorded;
pub mod table;
mod uploads;
mod work;

use std::sync::Arc;

pub use profile::{Piece, PieceWork, Profile};

use bireme_engine::Result;
use bireme_engine::device::Device;

pub use cache::Keeping;

/// Opens a card, by its number among those of this machine; one that is open already is shared.
///
/// # Errors
/// When there is no such card, no driver, or one that is too old: the message says what to do.
pub fn open(number: u32) -> Result<Arc<dyn Device>> {
    Ok(device::Cuda::open(number)?)
}

/// As [`open`], of a card that nobody else shares, whose memory is kept as `keeping` says: for tests of that.
///
/// # Errors
/// As [`open`].
pub fn open_alone(number: u32, keeping: Keeping) -> Result<Arc<dyn Device>> {
    Ok(device::Cuda::open_alone(number, keeping)?)
}

/// A card that is not there: it says which ops a card would run and what memory they need
/// ([`bireme_engine::Executor::memory_plan`]), and runs nothing.
pub fn on_paper() -> Arc<dyn Device> {
    Arc::new(paper::Paper)
}

/// The stream on which everything runs that a card is given by the engine: what else is given to it comes in turn with
/// that, as a [`table::Table`] must that steps use.
///
/// # Errors
/// As [`open`].
pub fn stream(number: u32) -> Result<Arc<driver::Stream>> {
    Ok(Arc::clone(device::Cuda::open(number)?.stream()))
}

/// Runs `work`, and says for each step that it records on a card how long its pieces take. They are run several times
/// for that, so what the steps compute is of no use. `BIREME_CUDA_PROFILE=1` prints the same of any process.
///
/// # Errors
/// As [`open`].
pub fn profiled<T>(number: u32, work: impl FnOnce() -> T) -> Result<(T, Vec<Profile>)> {
    Ok(device::Cuda::open(number)?.profiled(work))
}

/// The number of cards.
///
/// # Errors
/// When there is no driver, or one that is too old.
pub fn count() -> Result<usize> {
    driver::Card::count().map_err(bound::failed)
}

/// Whether the environment asks for emulated cards (`BIREME_DEVICE=emulated`).
pub fn is_emulated() -> bool {
    driver::libraries::is_emulated()
}

/// Lets products of 32-bit floats round their factors to 10 bits of fraction (`FLAGS_allow_tf32`): faster, and off
/// unless asked for. It counts for programs that are prepared from now on.
pub fn allow_tf32(allow: bool) {
    device::allow_tf32(allow);
}

/// Op types that a card runs; the host runs the others inside the same program.
pub fn ops() -> impl Iterator<Item = &'static str> {
    lower::names()
}
