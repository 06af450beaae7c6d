//! Arithmetic on two tensors, element by element, with Paddle's broadcasting.

use crate::op::OpDef;

mod add;
pub(super) mod binary;
pub(super) mod broadcast;
pub(super) mod broadcast_walk;
mod div;
mod max_min;
mod modulo;
mod mul;
mod pow;
mod sub;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    add::DEF,
    sub::DEF,
    mul::DEF,
    div::DEF,
    max_min::MAX,
    max_min::MIN,
    pow::DEF,
    modulo::MOD,
    modulo::FLOORDIV,
];
