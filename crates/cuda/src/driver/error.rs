//! What can go wrong with a card.

use std::sync::Arc;

/// A result of this module.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the driver, of cuBLASLt or of looking for them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `libcuda` was not found.
    #[error(
        "no NVIDIA driver: `libcuda.so.1` was not found; install the driver, or train on the CPU"
    )]
    NoDriver,
    /// The driver is older than the kernels need.
    #[error(
        "the NVIDIA driver is too old: it supports CUDA {}.{}, and 13.0 (driver 580) is needed",
        version / 1000,
        version % 1000 / 10
    )]
    OldDriver {
        /// What it supports, as 12080 for CUDA 12.8.
        version: i32,
    },
    /// A card that is not there was asked for.
    #[error("there is no card {number}: this machine has {count}")]
    NoCard {
        /// The card that was asked for.
        number: usize,
        /// How many there are.
        count: usize,
    },
    /// cuBLASLt was not found.
    #[error(
        "`libcublasLt.so.13` was not found; install it with `pip install nvidia-cublas`, or say its folder in \
         `BIREME_CUDA_LIBRARIES`"
    )]
    NoProducts,
    /// NCCL was not found.
    #[error(
        "`libnccl.so.2` was not found; install it with `pip install nvidia-nccl-cu13`, or say its folder in \
         `BIREME_CUDA_LIBRARIES`"
    )]
    NoExchange,
    /// Cards that exchange have given up.
    #[error("{problem}")]
    GivenUp {
        /// Why.
        problem: String,
    },
    /// The card has not so much memory left.
    #[error("the card is out of memory: {bytes} bytes were asked for, {free} of {total} are free")]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
        /// What the card had left.
        free: usize,
        /// What the card has.
        total: usize,
    },
    /// A kernel did something wrong. The card's context cannot be used any more.
    #[error("a kernel failed on the card, `{kernel}` or one before it: {why}")]
    Launch {
        /// The last kernel that was launched on the card.
        kernel: Arc<str>,
        /// What the driver says.
        why: String,
    },
    /// The card does not answer any more.
    #[error(
        "the card is lost: it does not answer any more; see the system's log for `Xid`, and restart the machine"
    )]
    Lost,
    /// Any other call that failed.
    #[error("`{function}` failed: {text} (code {code})")]
    Call {
        /// The driver's or cuBLASLt's function.
        function: &'static str,
        /// The code that it gave.
        code: i32,
        /// What the code means.
        text: String,
    },
}
