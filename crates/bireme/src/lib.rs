//! Bireme for Rust programs: the one crate to depend on.
//!
//! A program is built layer by layer, `minimize` appends its gradients and updates, and an executor
//! runs it:
//!
//! ```
//! use bireme::prelude::*;
//!
//! # fn main() -> bireme::Result<()> {
//! let graph = Graph::new();
//! let x = layers::data(&graph, "x", [2], DType::F32);
//! let y = layers::data(&graph, "y", [1], DType::F32);
//! let predicted = layers::fc(&x, 1, Act::None)?;
//! let loss = layers::mean(&layers::square_error_cost(&predicted, &y)?)?;
//! Sgd::new(0.1).minimize(&loss)?;
//!
//! // y = 2 a - b + 1
//! let features = Tensor::from_slice([4, 2], &[0.0f32, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0])?;
//! let targets = Tensor::from_slice([4, 1], &[1.0f32, 3.0, 0.0, 2.0])?;
//! let mut executor = Executor::new(Place::Cpu)?;
//! executor.run(&graph.startup(), &[], &[])?;
//! let mut last = f32::NAN;
//! for _ in 0..500 {
//!     let feeds = [("x", &features), ("y", &targets)];
//!     last = executor.run(&graph.main(), &feeds, &[loss.name()])?[0].as_slice::<f32>()?[0];
//! }
//! assert!(last < 1e-4);
//! # Ok(())
//! # }
//! ```
//!
//! | to … | see |
//! |---|---|
//! | build a model | [`layers`], [`optimizer`], [`lr`], [`initializer`], [`clip`], [`regularizer`] |
//! | train it with 16 bits | [`amp`] |
//! | run and save it | [`Executor`], [`Scope`], [`tensor`], [`io`] |
//! | train on files | [`data`] |
//! | train in many processes | [`fleet`]: parameter servers, collective jobs |
//! | train from a YAML file | [`rec`]: the configurations and the model zoo of `bireme train -m` |
//! | look into a program | [`ir`] |
//!
//! The crates behind these modules can be used by themselves (`bireme-engine` alone has no network
//! in it); this one adds nothing but their names.

/// What most programs use: `use bireme::prelude::*;`.
pub mod prelude {
    pub use bireme_engine::amp::{Amp, MixedPrecision};
    pub use bireme_engine::graph::Graph;
    pub use bireme_engine::io::{load_inference_model, save_inference_model};
    pub use bireme_engine::layers::{self, Act, Label};
    pub use bireme_engine::optimizer::{
        Adadelta, Adagrad, Adam, AdamW, Adamax, Ftrl, Lamb, Momentum, Optimizer, RmsProp, Sgd,
    };
    pub use bireme_engine::tensor::Tensor;
    pub use bireme_engine::{Executor, Place, Scope};
    pub use bireme_fleet::{Fleet, Strategy};

    pub use crate::ir::{DType, Program};
}

pub use bireme_engine::ir;
pub use bireme_engine::{DType, Error, Executor, Place, Result, Scope, Value};
pub use bireme_engine::{
    amp, autodiff, catalog, clip, eager, graph, initializer, io, layers, lr, optimizer, random,
    regularizer, tensor,
};
pub use {bireme_data as data, bireme_fleet as fleet, bireme_rec as rec};

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
