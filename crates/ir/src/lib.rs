//! The program as plain data: what Paddle calls `ProgramDesc`, typed.
//!
//! A [`Program`] is a list of [`Block`]s; a block declares [`Var`]s and lists [`Op`]s in execution
//! order. Nothing here touches a tensor, a file or a socket: the same program in gives the same
//! program (or text, or bytes) out. Op types, slots, attributes and variable names are Paddle's.

mod attr;
mod block;
mod dtype;
mod error;
mod op;
mod program;
mod signature;
mod var;

pub use attr::{Attr, AttrKind, Scalar};
pub use block::Block;
pub use dtype::DType;
pub use error::{Error, Result};
pub use op::{Op, OpRole, Slots};
pub use program::{GRAD_SUFFIX, Program, grad_name};
pub use signature::{AttrDefault, AttrSpec, Catalog, Signature, Slot};
pub use var::{Param, Regularizer, Var, VarKind};
