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
    abs::ABS_GRAD,
    abs::SIGN,
    clip::DEF,
    clip::GRAD,
    cumsum::DEF,
    cumsum::GRAD,
    erf::DEF,
    erf::GRAD,
    exp::DEF,
    exp::GRAD,
    exp::EXPM1,
    exp::EXPM1_GRAD,
    log::LOG,
    log::LOG_GRAD,
    log::LOG1P,
    log::LOG1P_GRAD,
    log::LOG2,
    log::LOG2_GRAD,
    log::LOG10,
    log::LOG10_GRAD,
    mean::DEF,
    mean::GRAD,
    pow::POW,
    pow::POW_GRAD,
    pow::RECIPROCAL,
    pow::RECIPROCAL_GRAD,
    pow::SQUARE,
    pow::SQUARE_GRAD,
    root::SQRT,
    root::SQRT_GRAD,
    root::RSQRT,
    root::RSQRT_GRAD,
    round::FLOOR,
    round::FLOOR_GRAD,
    round::CEIL,
    round::CEIL_GRAD,
    round::ROUND,
    round::ROUND_GRAD,
    scale::DEF,
    sum::DEF,
    trigonometry::COS,
    trigonometry::COS_GRAD,
    trigonometry::SIN,
    trigonometry::SIN_GRAD,
];
