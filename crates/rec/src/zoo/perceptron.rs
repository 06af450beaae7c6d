//! Layers of a perceptron, with PaddleRec's first values: normal with a spread of one over the root
//! of the number of inputs.

use bireme_engine::graph::Variable;
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Act, Linear, ParamAttr};

use super::Hyper;
use crate::Result;

/// Hidden layers: linear, activation, then perhaps normalisation and dropout.
#[derive(Clone, Debug)]
pub(super) struct Hidden<'a> {
    sizes: &'a [usize],
    act: Act,
    batch_norm: bool,
    dropout: f32,
}

impl<'a> Hidden<'a> {
    /// Layers of these sizes, each followed by a relu.
    pub(super) fn new(sizes: &'a [usize]) -> Hidden<'a> {
        Hidden { sizes, act: Act::Relu, batch_norm: false, dropout: 0.0 }
    }

    /// Sets the activation.
    pub(super) fn act(mut self, act: Act) -> Hidden<'a> {
        self.act = act;
        self
    }

    /// Normalises each layer's outputs over the batch.
    pub(super) fn batch_norm(mut self, batch_norm: bool) -> Hidden<'a> {
        self.batch_norm = batch_norm;
        self
    }

    /// Drops outputs with this probability while training.
    pub(super) fn dropout(mut self, probability: f32) -> Hidden<'a> {
        self.dropout = probability;
        self
    }

    /// Appends the layers.
    pub(super) fn apply(&self, x: &Variable) -> Result<Variable> {
        let mut hidden = x.clone();
        for size in self.sizes {
            hidden = activate(&linear(&hidden, *size)?, self.act)?;
            if self.batch_norm {
                hidden = layers::batch_norm(&hidden)?;
            }
            if self.dropout > 0.0 {
                hidden = layers::dropout(&hidden, self.dropout)?;
            }
        }
        Ok(hidden)
    }
}

/// Hidden layers of these sizes with a relu each, then a linear one with so many outputs.
pub(super) fn perceptron(x: &Variable, hidden: &[usize], outputs: usize) -> Result<Variable> {
    linear(&Hidden::new(hidden).apply(x)?, outputs)
}

/// A linear layer over the last dimension.
pub(super) fn linear(x: &Variable, outputs: usize) -> Result<Variable> {
    let inputs = x.shape().last().copied().unwrap_or(1).max(1);
    let initial = Initializer::normal(0.0, 1.0 / (inputs as f32).sqrt());
    Ok(Linear::new(outputs as i64).param_attr(initial).apply(x)?)
}

/// A linear layer with these first values.
pub(super) fn linear_with(
    x: &Variable,
    outputs: usize,
    weight: Initializer,
    bias: Initializer,
) -> Result<Variable> {
    let (weight, bias) = (ParamAttr::from(weight), ParamAttr::from(bias));
    Ok(Linear::new(outputs as i64).param_attr(weight).bias_attr(bias).apply(x)?)
}

/// `x` through an activation.
pub(super) fn activate(x: &Variable, act: Act) -> Result<Variable> {
    match act.kind() {
        None => Ok(x.clone()),
        Some(kind) => Ok(layers::op(x.graph(), kind).input("X", x).output("Out")?),
    }
}

/// The activation that a hyper parameter names.
pub(super) fn act(hyper: &mut Hyper, key: &str, default: &str) -> Result<Act> {
    let name = hyper.get_text(key, default)?;
    act_named(&name)
        .ok_or_else(|| hyper.refuse(key, format!("is no activation: `{name}`; {KNOWN}")))
}

/// Which activations have names.
pub(super) const KNOWN: &str = "relu, sigmoid, tanh, gelu, swish and leaky_relu are";

/// The activation of this name.
pub(super) fn act_named(name: &str) -> Option<Act> {
    Some(match name {
        "relu" => Act::Relu,
        "sigmoid" => Act::Sigmoid,
        "tanh" => Act::Tanh,
        "gelu" => Act::Gelu,
        "swish" => Act::Swish,
        "leaky_relu" => Act::LeakyRelu,
        _ => return None,
    })
}
