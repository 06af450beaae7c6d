//! Activations: functions of one element, and softmax.

use crate::op::OpDef;

mod elu;
mod gelu;
mod hard_sigmoid;
mod leaky_relu;
mod prelu;
mod relu;
mod relu6;
mod sigmoid;
mod softmax;
mod softplus;
mod softsign;
mod swish;
mod tanh;
pub(super) mod unary;

/// The definitions of this family.
pub(super) const DEFS: &[OpDef] = &[
    elu::DEF,
    elu::GRAD,
    gelu::DEF,
    gelu::GRAD,
    hard_sigmoid::DEF,
    hard_sigmoid::GRAD,
    leaky_relu::DEF,
    leaky_relu::GRAD,
    prelu::DEF,
    prelu::GRAD,
    relu::DEF,
    relu::GRAD,
    relu6::DEF,
    relu6::GRAD,
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
