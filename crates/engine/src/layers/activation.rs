//! Functions of one element, and the activations that layers can end with.

use super::op;
use crate::Result;
use crate::graph::Variable;

/// What a layer ends with; the op's own defaults hold for its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `x`, or `0.02 x` when negative.
    LeakyRelu,
    /// `x`, or `e^x - 1` when negative.
    Elu,
    /// `x Φ(x)`.
    Gelu,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// A piecewise linear sigmoid.
    HardSigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// `x sigmoid(x)`.
    Swish,
    /// `ln(1 + e^x)`.
    Softplus,
    /// `x / (1 + |x|)`.
    Softsign,
    /// Probabilities over the last dimension.
    Softmax,
}

impl Act {
    /// The op that computes it.
    pub fn kind(self) -> Option<&'static str> {
        Some(match self {
            Act::None => return None,
            Act::Relu => "relu",
            Act::Relu6 => "relu6",
            Act::LeakyRelu => "leaky_relu",
            Act::Elu => "elu",
            Act::Gelu => "gelu",
            Act::Sigmoid => "sigmoid",
            Act::HardSigmoid => "hard_sigmoid",
            Act::Tanh => "tanh",
            Act::Swish => "swish",
            Act::Softplus => "softplus",
            Act::Softsign => "softsign",
            Act::Softmax => "softmax",
        })
    }
}

/// Ends layer `layer` with `act`.
#[track_caller]
pub(super) fn activate(x: &Variable, act: Act, layer: &str) -> Result<Variable> {
    match act.kind() {
        None => Ok(x.clone()),
        Some(kind) => op(x.graph(), kind).input("X", x).of_layer(layer).output("Out"),
    }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// When the elements of `x` are of a type the function does not take.
        #[track_caller]
        pub fn $name(x: &Variable) -> Result<Variable> {
            op(x.graph(), stringify!($name)).input("X", x).output("Out")
        }
    )*};
}

unary! {
    /// `max(x, 0)`.
    relu;
    /// `1 / (1 + e^-x)`.
    sigmoid;
    /// Hyperbolic tangent.
    tanh;
    /// Probabilities over the last dimension.
    softmax;
    /// Logarithms of probabilities over the last dimension.
    log_softmax;
    /// `x Φ(x)`.
    gelu;
    /// `x sigmoid(x)`.
    swish;
    /// `ln(1 + e^x)`.
    softplus;
    /// `e^x`.
    exp;
    /// The natural logarithm.
    log;
    /// The square root.
    sqrt;
    /// One over the square root.
    rsqrt;
    /// `x²`.
    square;
    /// The absolute value.
    abs;
    /// -1, 0 or 1.
    sign;
    /// `1 / x`.
    reciprocal;
    /// The largest integer not above `x`.
    floor;
    /// The smallest integer not below `x`.
    ceil;
    /// The nearest integer.
    round;
}

/// `x`, or `alpha x` when negative.
///
/// # Errors
/// When `x` holds no floats.
#[track_caller]
pub fn leaky_relu(x: &Variable, alpha: f32) -> Result<Variable> {
    op(x.graph(), "leaky_relu").input("X", x).attr("alpha", alpha).output("Out")
}

/// `x` to a power.
///
/// # Errors
/// When `x` holds no numbers.
#[track_caller]
pub fn pow(x: &Variable, factor: f32) -> Result<Variable> {
    op(x.graph(), "pow").input("X", x).attr("factor", factor).output("Out")
}

/// `x` held between two bounds.
///
/// # Errors
/// When `x` holds no numbers.
#[track_caller]
pub fn clip(x: &Variable, min: f32, max: f32) -> Result<Variable> {
    op(x.graph(), "clip").input("X", x).attr("min", min).attr("max", max).output("Out")
}
