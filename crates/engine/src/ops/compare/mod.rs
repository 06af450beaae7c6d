//! Comparisons, logic, and tests of single elements, whose results are truth values; and logic of
//! all bits of integers.

use crate::op::OpDef;

mod bitwise;
mod finite;
mod logical;
mod relation;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    relation::EQUAL,
    relation::NOT_EQUAL,
    relation::LESS_THAN,
    relation::LESS_EQUAL,
    relation::GREATER_THAN,
    relation::GREATER_EQUAL,
    logical::AND,
    logical::OR,
    logical::XOR,
    logical::NOT,
    bitwise::AND,
    bitwise::OR,
    bitwise::XOR,
    bitwise::NOT,
    finite::ISNAN_V2,
    finite::ISINF_V2,
    finite::ISFINITE_V2,
];
