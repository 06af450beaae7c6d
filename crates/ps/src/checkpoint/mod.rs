//! Checkpoints: shards, manifest, loading onto any number of servers, Paddle's text layout.

mod holdings;

pub use holdings::{
    Column, ColumnKind, Holdings, Picks, Piece, Rows, SaveMode, State, StateKind, TableLayout,
};
