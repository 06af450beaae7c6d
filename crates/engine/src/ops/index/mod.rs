//! Ops that pick elements by position or condition.

use crate::op::OpDef;

mod choose;
mod diag;
mod gather;
mod gather_nd;
mod index_sample;
mod masked;
mod one_hot;
mod positions;
mod put_rows;
mod scatter;
mod send_recv;
mod take_along_axis;
mod tril_triu;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    gather::DEF,
    gather::SELECT,
    gather_nd::DEF,
    put_rows::DEF,
    scatter::DEF,
    scatter::GRAD,
    index_sample::DEF,
    masked::DEF,
    choose::WHERE,
    choose::WHERE_INDEX,
    one_hot::DEF,
    one_hot::OLD,
    tril_triu::DEF,
    diag::DEF,
    send_recv::DEF,
    take_along_axis::DEF,
];
