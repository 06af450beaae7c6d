//! Arithmetic on two tensors, element by element, with Paddle's broadcasting.

use crate::op::OpDef;

mod add;
pub(super) mod binary;
pub(super) mod broadcast;
mod div;
mod max_min;
mod modulo;
mod mul;
mod pow;
mod sub;
pub(super) mod walk;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    add::DEF,
    add::GRAD,
    sub::DEF,
    sub::GRAD,
    mul::DEF,
    mul::GRAD,
    div::DEF,
    div::GRAD,
    max_min::MAX,
    max_min::MAX_GRAD,
    max_min::MIN,
    max_min::MIN_GRAD,
    pow::DEF,
    pow::GRAD,
    modulo::MOD,
    modulo::FLOORDIV,
];
