//! The program as plain data: what Paddle calls `ProgramDesc`, typed.
//!
//! A [`Program`] is a list of [`Block`]s; a block declares [`Var`]s and lists [`Op`]s in execution
//! order. Nothing here touches a tensor, a file or a socket: the same program in gives the same
//! program (or text, or bytes) out. Op types, slots, attributes and variable names are Paddle's.

mod attr;
mod block;
mod blocks;
mod coerce;
mod convert;
mod dot;
mod dtype;
mod error;
mod fingerprint;
mod inference;
mod mode;
mod nearest;
mod op;
mod program;
mod proto;
mod prune;
mod signature;
mod text;
mod var;
mod verify;

pub use attr::{Attr, AttrKind, Scalar};
pub use block::Block;
pub use blocks::Blocks;
pub use convert::MAX_PROGRAM_BYTES;
pub use dtype::DType;
pub use error::{AttrProblem, Error, OpPlace, Result, SlotProblem, TargetProblem};
pub use fingerprint::difference;
pub use inference::FetchStyle;
pub use mode::Mode;
pub use nearest::{did_you_mean, nearest};
pub use op::{Op, OpRole, Slots};
pub use program::{EMPTY_VAR, GRAD_SUFFIX, Program, grad_name};
pub use signature::{AttrDefault, AttrSpec, Catalog, Signature, Slot};
pub use var::{Param, Regularizer, Var, VarKind};
pub use verify::{COMMON_ATTRS, verify};
