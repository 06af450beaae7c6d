//! Checkpoints: shards, manifest, loading onto any number of servers, Paddle's text layout.
//!
//! Every server writes its own files ([`save`]); whoever asked them writes the manifest when all
//! have answered ([`finish`]), and tells them so ([`commit`]). Files are written aside, flushed and renamed, the manifest comes
//! last, and what it no longer names is removed after that: at every instant the folder holds one
//! whole checkpoint, the old one or the new.

mod disk;
mod gather;
mod holdings;
mod load;
mod manifest;
mod request;
mod save;
mod sharding;
mod tensor_file;
mod text;

#[cfg(test)]
mod tests;

pub use crate::table::{Column, ColumnKind, Picks, RowVisitor, Rows, SaveMode, TableLayout};
pub use gather::{RowScan, gather_dense, gather_states, gather_table, scan_table, verify};
pub use holdings::{Holdings, Part, Piece, State, StateKind};
pub use load::{Loaded, load, load_table};
pub use manifest::{
    FileEntry, MANIFEST, Manifest, PieceEntry, Save, StateEntry, TableEntry, TableFile, Variable,
    is_checkpoint, read_manifest,
};
pub use request::{Form, complete_request, is_text, load_request, origin, save_request};
pub use save::{SavedPiece, SavedShard, SavedTable, abandon, commit, finish, save, save_table};
pub use sharding::{ServerIndex, Sharding};
pub use text::{TextShard, export_text, finish_text, import_text};

use std::path::Path;

use crate::Error;

/// An error about a file or folder of a checkpoint.
fn bad(path: &Path, problem: impl Into<String>) -> Error {
    Error::File { path: format!("`{}`", path.display()), problem: problem.into() }
}
