//! Ops about the run rather than the numbers: counters, checks, printing, the way in and out.

use crate::op::OpDef;

mod assert;
mod conditional_block;
mod feed_fetch;
mod increment;
mod print;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    assert::DEF,
    conditional_block::DEF,
    feed_fetch::FEED,
    feed_fetch::FETCH,
    increment::DEF,
    print::DEF,
];
