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
    brelu::GRAD,
    elu::DEF,
    elu::GRAD,
    gelu::DEF,
    gelu::GRAD,
    hard_sigmoid::DEF,
    hard_sigmoid::GRAD,
    hard_swish::DEF,
    hard_swish::GRAD,
    leaky_relu::DEF,
    leaky_relu::GRAD,
    mish::DEF,
    mish::GRAD,
    prelu::DEF,
    prelu::GRAD,
    relu::DEF,
    relu::GRAD,
    relu6::DEF,
    relu6::GRAD,
    selu::DEF,
    selu::GRAD,
    sigmoid::DEF,
    sigmoid::GRAD,
    softmax::SOFTMAX,
    softmax::SOFTMAX_GRAD,
    softmax::LOG_SOFTMAX,
    softmax::LOG_SOFTMAX_GRAD,
    softplus::DEF,
    softplus::GRAD,
    softsign::DEF,
    softsign::GRAD,
    swish::SWISH,
    swish::SWISH_GRAD,
    swish::SILU,
    swish::SILU_GRAD,
    tanh::DEF,
    tanh::GRAD,
];
