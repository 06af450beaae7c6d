//! Pooling: one number for each window of an image.

use crate::op::OpDef;

mod max_with_index;
mod pool2d;
mod windows;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[pool2d::DEF, max_with_index::DEF];
