//! Layers of a perceptron, with PaddleRec's first values: normal with a spread of one over the root
//! of the number of inputs.

use bireme_engine::graph::Variable;
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Act, Linear, ParamAttr};

use super::Hyper;
use crate::Result;

/// The share of a layer's outputs that training drops.
const DROPOUT: &str = "dropout_rate";

/// Whether layers are normalised over the batch, in models whose configurations do not call it otherwise.
pub(super) const BATCH_NORM: &str = "use_bn";

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

    /// The same as the hyper parameters `batch_norm` and `dropout_rate` say, the second with this
    /// default.
    pub(super) fn read(
        sizes: &'a [usize],
        hyper: &mut Hyper,
        batch_norm: &str,
        dropout: f32,
    ) -> Result<Hidden<'a>> {
        let batch_norm = hyper.get_bool(batch_norm, false)?;
        let dropout = hyper.get_f32(DROPOUT, dropout)?;
        if !(0.0..1.0).contains(&dropout) {
            let problem = format!("must be at least 0 and below 1, not {dropout}");
            return Err(hyper.refuse(DROPOUT, problem));
        }
        Ok(Hidden { batch_norm, dropout, ..Hidden::new(sizes) })
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

    /// Whether layers do more than compute.
    pub(super) fn is_regularised(&self) -> bool {
        self.batch_norm || self.dropout > 0.0
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

    /// Appends the layers, then a linear one with so many outputs.
    pub(super) fn then_linear(&self, x: &Variable, outputs: usize) -> Result<Variable> {
        linear(&self.apply(x)?, outputs)
    }
}

/// Hidden layers of these sizes with a relu each, then a linear one with so many outputs.
pub(super) fn perceptron(x: &Variable, hidden: &[usize], outputs: usize) -> Result<Variable> {
    Hidden::new(hidden).then_linear(x, outputs)
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
