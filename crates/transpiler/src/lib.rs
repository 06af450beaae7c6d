//! Splits one program into the programs of its roles: trainers, parameter servers, collective
//! trainers. Pure: programs and a placement in, programs out; no tensor, file or socket.
//!
//! [`Transpiler::transpile`] analyses the program (`analysis`, `sparse`), cuts and places its
//! parameters (`slice`, `placement`, `plan`), and writes the programs (`trainer`, `geo`, `server`,
//! `table`, `lr`, `startup`); [`Transpiler::transpile_collective`] those without servers,
//! [`Transpiler::transpile_heter`] those of stages on different devices (`heter`),
//! [`Transpiler::transpile_gpubox`] those of a trainer that holds the rows of a pass (`gpubox`). Op types,
//! attributes, slices, names and placements are Paddle's; where Paddle's own are defects the module
//! says so.

mod analysis;
mod collective;
mod config;
mod edit;
mod error;
mod geo;
mod gpubox;
mod gpubox_rows;
mod heter;
mod lr;
pub mod names;
mod placement;
mod plan;
mod server;
mod slice;
mod sparse;
mod startup;
mod table;
mod trainer;
mod transpile;

pub use bireme_ir::Mode;
pub use collective::{CollectiveStrategy, GradientMerge, LocalSgd};
pub use config::{CollectiveMode, Config, Distribution, MIN_BLOCK_SIZE, SplitMethod};
pub use error::{Error, Result};
pub use gpubox_rows::{ByRows, RowFeed, by_rows};
pub use heter::{Heter, Place};
pub use placement::hash_name;
pub use plan::Piece;
pub use slice::{Slice, slice_variable};
pub use transpile::{Located, Transpiled, Transpiler};
