//! Arithmetic on whole tensors: scaling, sums, means, powers and roots.

use crate::op::OpDef;

mod abs;
mod clip;
mod cumsum;
mod erf;
mod exp;
mod log;
mod mean;
mod pow;
mod root;
mod round;
mod scale;
mod sum;
mod trigonometry;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    abs::ABS,
    abs::SIGN,
    clip::DEF,
    cumsum::DEF,
    erf::DEF,
    exp::DEF,
    exp::EXPM1,
    log::LOG,
    log::LOG1P,
    log::LOG2,
    log::LOG10,
    mean::DEF,
    pow::POW,
    pow::RECIPROCAL,
    pow::SQUARE,
    root::SQRT,
    root::RSQRT,
    round::FLOOR,
    round::CEIL,
    round::ROUND,
    scale::DEF,
    sum::DEF,
    trigonometry::COS,
    trigonometry::SIN,
];
