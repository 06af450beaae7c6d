//! Ops about the run rather than the numbers: blocks that run under a condition, counters, checks,
//! printing, the way in and out.

use crate::op::OpDef;

mod assert;
mod conditional_block;
mod feed_fetch;
mod increment;
mod print;
mod select;
mod while_loop;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    assert::DEF,
    conditional_block::DEF,
    conditional_block::GRAD,
    feed_fetch::FEED,
    feed_fetch::FETCH,
    increment::DEF,
    print::DEF,
    select::INPUT,
    select::OUTPUT,
    while_loop::DEF,
    while_loop::GRAD,
];
