//! Convolutions of images.

use crate::op::OpDef;

mod columns;
mod conv2d;
mod depthwise;
mod sizes;
pub(super) mod window;

pub use self::sizes::Sizes;
pub use self::window::Axis;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[conv2d::DEF, conv2d::DEPTHWISE];
