//! Runs programs: tensors, ops, autodiff, optimizers, plans and the executor.
//!
//! The layers, each of which uses only those before it:
//! [`tensor`] (memory) · [`op`] (the contract of an op) · [`ops`] (every op) · autodiff and
//! optimizers (program to program) · layers (the builder) · plan and executor (program to steps) ·
//! [`eager`] (one op at a time).
//! The engine does not know that a network exists: what a trainer's ops ask of other processes they
//! ask of a trait, [`remote::Remote`], and what ranks ask of each other of [`collective::Collective`].
//!
//! A line is fitted to two points: a graph is built once, and its programs are run.
//!
//! ```
//! use bireme_engine::graph::Graph;
//! use bireme_engine::layers::{self, Act};
//! use bireme_engine::optimizer::{Optimizer, Sgd};
//! use bireme_engine::tensor::Tensor;
//! use bireme_engine::{DType, Executor, Place};
//!
//! let graph = Graph::new();
//! let x = layers::data(&graph, "x", [1], DType::F32);
//! let y = layers::data(&graph, "y", [1], DType::F32);
//! let predicted = layers::fc(&x, 1, Act::None)?;
//! let loss = layers::mean(&layers::square_error_cost(&predicted, &y)?)?;
//! Sgd::new(0.1).minimize(&loss)?;
//!
//! let mut executor = Executor::new(Place::Cpu)?;
//! executor.run(&graph.startup(), &[], &[])?;
//! let points = Tensor::from_slice([2, 1], &[1.0f32, 2.0])?;
//! let values = Tensor::from_slice([2, 1], &[3.0f32, 5.0])?;
//! for _ in 0..500 {
//!     executor.run(&graph.main(), &[("x", &points), ("y", &values)], &[])?;
//! }
//! let slope = executor.scope().get("fc_0.w_0")?;
//! assert!((slope.as_slice::<f32>()?[0] - 2.0).abs() < 1e-3);
//! # Ok::<(), bireme_engine::Error>(())
//! ```

pub mod accessor;
pub mod amp;
pub mod autodiff;
pub mod catalog;
pub mod clip;
pub mod collective;
pub mod crew;
pub mod device;
mod draws;
pub mod eager;
mod error;
mod executor;
pub mod finite;
pub mod flow;
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
pub use executor::{Executor, Feed, MAX_THREADS, Step};
pub use place::Place;
pub use plan::StepTimes;
pub use scope::Scope;
pub use value::Value;
