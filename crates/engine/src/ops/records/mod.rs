//! Records of keyed tables that a GPUBox trainer holds itself: which rows a step reads and trains,
//! what it counts, and what a push does to a record. Ours; see `fleet/src/gpubox`.
//!
//! The formulas are those of [`crate::accessor`], which servers use, too.

use crate::op::OpDef;

mod admit_rows;
mod count_rows;
mod counts_of_rows;
mod update_records;

pub(in crate::ops) use counts_of_rows::{give, read_counts};
pub use update_records::accessor_of;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] =
    &[admit_rows::DEF, count_rows::DEF, counts_of_rows::DEF, update_records::DEF];
