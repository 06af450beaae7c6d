//! Embeddings: rows of a table by id, and the gradient of the rows that were read.

use crate::op::OpDef;

mod find_rows;
mod lookup;
mod spread_rows;
mod table;

pub use find_rows::PassIndex;
pub(crate) use find_rows::unknown_key;
pub(crate) use spread_rows::too_many_rows;
pub use spread_rows::{global_row, owner};
pub(crate) use table::Id;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[find_rows::DEF, lookup::V1, lookup::V2, spread_rows::DEF];
