//! Embeddings: rows of a table by id, and the gradient of the rows that were read.

use crate::op::OpDef;

mod lookup;
mod table;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[lookup::V1, lookup::V2];
