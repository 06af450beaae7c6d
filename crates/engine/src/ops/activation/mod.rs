//! Activations: functions of one element, and softmax.

use crate::op::OpDef;

mod brelu;
mod elu;
mod gelu;
mod hard_sigmoid;
mod hard_swish;
mod leaky_relu;
mod mish;
mod prelu;
mod relu;
mod relu6;
mod selu;
mod sigmoid;
mod softmax;
mod softplus;
mod softsign;
mod swish;
mod tanh;
pub(super) mod unary;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    brelu::DEF,
    elu::DEF,
    gelu::DEF,
    hard_sigmoid::DEF,
    hard_swish::DEF,
    leaky_relu::DEF,
    mish::DEF,
    prelu::DEF,
    relu::DEF,
    relu6::DEF,
    selu::DEF,
    sigmoid::DEF,
    softmax::SOFTMAX,
    softmax::LOG_SOFTMAX,
    softplus::DEF,
    softsign::DEF,
    swish::SWISH,
    swish::SILU,
    tanh::DEF,
];
