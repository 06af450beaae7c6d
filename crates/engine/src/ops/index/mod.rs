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
mod scatter;
mod send_recv;
mod take_along_axis;
mod tril_triu;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    gather::DEF,
    gather::GRAD,
    gather::SELECT,
    gather::SELECT_GRAD,
    gather_nd::DEF,
    gather_nd::GRAD,
    scatter::DEF,
    scatter::GRAD,
    index_sample::DEF,
    index_sample::GRAD,
    masked::DEF,
    masked::GRAD,
    choose::WHERE,
    choose::WHERE_GRAD,
    choose::WHERE_INDEX,
    one_hot::DEF,
    one_hot::OLD,
    tril_triu::DEF,
    tril_triu::GRAD,
    diag::DEF,
    diag::GRAD,
    send_recv::DEF,
    send_recv::GRAD,
    take_along_axis::DEF,
    take_along_axis::GRAD,
];
