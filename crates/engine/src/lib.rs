//! Runs programs: tensors, ops, autodiff, optimizers, plans and the executor.
//!
//! The layers, each of which uses only those before it:
//! [`tensor`] (memory) · [`op`] (the contract of an op) · [`ops`] (every op) · autodiff and
//! optimizers (program to program) · layers (the builder) · plan and executor (program to steps) ·
//! [`eager`] (one op at a time).
//! The engine does not know that a network exists: what a trainer's ops ask of other processes they
//! ask of a trait, [`remote::Remote`], and what ranks ask of each other of [`collective::Collective`].

pub mod autodiff;
pub mod catalog;
pub mod clip;
pub mod collective;
mod draws;
pub mod eager;
mod error;
mod executor;
pub mod finite;
pub mod gemm;
pub mod graph;
pub mod initializer;
pub mod io;
pub mod layers;
pub mod lr;
pub mod number;
pub mod op;
pub mod ops;
pub mod optimizer;
mod place;
mod plan;
pub mod prefetch;
pub mod random;
pub mod regularizer;
pub mod remote;
mod scope;
pub mod simd;
pub mod tensor;
mod value;

pub use bireme_ir as ir;
pub use bireme_ir::DType;

pub use draws::Draws;
pub use error::{Error, Result};
pub use executor::{Executor, MAX_THREADS, Step};
pub use place::Place;
pub use scope::Scope;
pub use value::Value;
