//! Ops that make tensors: constants, copies, other element types, sequences of numbers.

use crate::op::OpDef;

mod assign;
mod cast;
mod constant;
mod sequence;

pub(in crate::ops) use cast::cast;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    constant::DEF,
    constant::BATCH_SIZE_LIKE,
    constant::ANY_LIKE,
    constant::ZEROS_LIKE,
    assign::DEF,
    assign::VALUE,
    cast::DEF,
    sequence::SHAPE,
    sequence::RANGE,
    sequence::LINSPACE,
    sequence::EYE,
];
