//! Runs programs on NVIDIA cards.
//!
//! [`driver`] is a thin safe layer over the CUDA driver and cuBLASLt, which are looked up when a card
//! is first asked for; a machine without them gets one clear error.

pub mod driver;
