//! Runs ops on NVIDIA cards.
//!
//! An op becomes a list of [`work`] for the card (`lower/`, one file a family of ops): kernels of our
//! own (`kernels/`, CUDA C compiled ahead of time), products of cuBLASLt, copies. What that list says
//! depends on shapes and attributes alone, so it is made once, bound to addresses, and given to the card as
//! it is or recorded as a graph. The driver's libraries are loaded at run time ([`driver`]).

mod lanes;
mod lower;
mod work;
