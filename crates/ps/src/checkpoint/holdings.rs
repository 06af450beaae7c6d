//! What a checkpoint asks of a server: its dense pieces and its tables.
//!
//! The server implements [`Holdings`], a keyed table [`Rows`]; the checkpoint knows no more of
//! either. What one call shows is of one instant: a value never goes to disk with the
//! optimizer state of another step.

use std::sync::Arc;

use bireme_engine::tensor::{Dims, Tensor};
use bireme_ir::DType;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::table::Rows;

/// Everything a server holds that outlives the job.
pub trait Holdings: Sync {
    /// Updates applied so far: the step that a restart continues from.
    fn step(&self) -> u64;

    /// Takes the step of a checkpoint that was just loaded.
    fn set_step(&self, step: u64);

    /// The dense pieces, row-sliced tables among them, in any order. Variables that every server
    /// has (a learning rate, a counter of steps) are pieces that cover the whole variable.
    fn pieces(&self) -> Vec<Piece>;

    /// Shows the value of a piece and then its states, in the order of [`Piece::states`], under one
    /// lock. The sizes are those that [`Holdings::pieces`] says.
    fn read_piece(&self, piece: &str, look: &mut dyn FnMut(&[&Tensor]) -> Result<()>)
    -> Result<()>;

    /// As [`Holdings::read_piece`], for a piece that is too large to be in memory twice or to be
    /// written while its lock is held: `look` sees some bytes at a time, value by value, all of one
    /// instant. One whose pieces are small need not cut them.
    fn read_piece_in_parts(
        &self,
        piece: &str,
        look: &mut dyn FnMut(&Part<'_>) -> Result<()>,
    ) -> Result<()> {
        self.read_piece(piece, &mut |values| {
            values.iter().enumerate().try_for_each(|(value, tensor)| {
                let (dtype, dims, bytes) = (tensor.dtype(), tensor.dims(), tensor.as_bytes());
                look(&Part { value, dtype, dims, start: 0, bytes })
            })
        })
    }

    /// Something of a checkpoint was written or read, which may take long as a whole.
    fn progressed(&self) {}

    /// As [`Holdings::read_piece`], to fill them in when a checkpoint is loaded.
    fn write_piece(
        &self,
        piece: &str,
        fill: &mut dyn FnMut(&mut [&mut Tensor]) -> Result<()>,
    ) -> Result<()>;

    /// The keyed tables, each of them in the same place on every server: the place is the table's
    /// id in Paddle's layout.
    fn tables(&self) -> Vec<Arc<dyn Rows>>;
}

/// Some bytes of one of several values.
#[derive(Debug)]
pub struct Part<'a> {
    /// Which value, from 0.
    pub value: usize,
    /// Its type.
    pub dtype: DType,
    /// Its dimensions.
    pub dims: Dims,
    /// The first byte that is here; the parts of a value come in order, from 0 on.
    pub start: usize,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The part of a dense variable that one server holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its name on the server: `fc_w.block0`, or the variable's own if it is not cut.
    pub name: String,
    /// The whole variable: `fc_w`.
    pub variable: String,
    /// The shape of the whole variable.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: DType,
    /// The first element of the piece within the whole variable, laid out row by row.
    pub start: usize,
    /// Its number of elements.
    pub len: usize,
    /// What the optimizer keeps beside it.
    pub states: Vec<State>,
}

/// A variable that an optimizer keeps beside a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Its name for the whole variable, the same on every server and for every way of cutting:
    /// `fc_w_moment1_0`.
    pub variable: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Which elements it has.
    pub kind: StateKind,
}

/// Which elements a state has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// One for each element of the piece: a moment.
    Elementwise,
    /// A few for the piece as a whole: the power of a beta.
    Whole,
}
