//! Embeddings: rows of a table by id, the gradient of the rows that were read, and ids by hash.

use crate::op::OpDef;

mod find_rows;
mod hash;
mod lookup;
mod spread_rows;
mod table;

pub use find_rows::PassIndex;
pub(crate) use find_rows::unknown_key;
pub(crate) use spread_rows::too_many_rows;
pub use spread_rows::{global_row, owner};
pub(crate) use table::Id;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] =
    &[find_rows::DEF, hash::DEF, lookup::V1, lookup::V2, spread_rows::DEF];
