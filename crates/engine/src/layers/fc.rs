//! Fully connected layers: `fc` (Paddle 1.x: `mul`) and `linear` (Paddle 2.x: `matmul_v2`).

use super::{Act, ParamAttr, activate, create_parameter, op};
use crate::graph::Variable;
use crate::initializer::Initializer;
use crate::{Error, Result};

/// A fully connected layer: `act(x · w + b)`.
#[derive(Clone, Debug)]
pub struct Fc {
    size: i64,
    act: Act,
    weight: ParamAttr,
    bias: Option<ParamAttr>,
    num_flatten_dims: usize,
}

/// `act(x · w + b)` with a weight and a bias of its own.
///
/// # Errors
/// When the width of `x` is not known.
#[track_caller]
pub fn fc(x: &Variable, size: i64, act: Act) -> Result<Variable> {
    Fc::new(size).act(act).apply(x)
}

/// `x · w + b`, in the ops and names of Paddle 2.x.
///
/// # Errors
/// When the width of `x` is not known.
#[track_caller]
pub fn linear(x: &Variable, size: i64) -> Result<Variable> {
    Linear::new(size).apply(x)
}

impl Fc {
    /// A layer with `size` outputs, no activation, and Paddle's defaults.
    pub fn new(size: i64) -> Fc {
        let (weight, bias) = (ParamAttr::default(), Some(ParamAttr::default()));
        Fc { size, act: Act::None, weight, bias, num_flatten_dims: 1 }
    }

    /// Sets the activation.
    pub fn act(mut self, act: Act) -> Fc {
        self.act = act;
        self
    }

    /// Says more about the weight.
    pub fn param_attr(mut self, attr: impl Into<ParamAttr>) -> Fc {
        self.weight = attr.into();
        self
    }

    /// Says more about the bias.
    pub fn bias_attr(mut self, attr: impl Into<ParamAttr>) -> Fc {
        self.bias = Some(attr.into());
        self
    }

    /// Leaves the bias out.
    pub fn no_bias(mut self) -> Fc {
        self.bias = None;
        self
    }

    /// How many leading dimensions are rows; the rest are features. 1 by default.
    pub fn num_flatten_dims(mut self, dims: usize) -> Fc {
        self.num_flatten_dims = dims;
        self
    }

    /// Appends the layer.
    ///
    /// # Errors
    /// When the number of features of `x` is not known, or a shared parameter has another shape.
    #[track_caller]
    pub fn apply(&self, x: &Variable) -> Result<Variable> {
        let graph = x.graph();
        let layer = graph.unique_name("fc");
        let features = features(x, self.num_flatten_dims)?;
        let weight = weight(x, &self.weight, &layer, [features, self.size])?;
        let columns = self.num_flatten_dims as i32;
        let mut out = op(graph, "mul")
            .input("X", x)
            .input("Y", &weight)
            .attr("x_num_col_dims", columns)
            .attr("y_num_col_dims", 1)
            .of_layer(&layer)
            .output("Out")?;
        if let Some(attr) = &self.bias {
            out = add_bias(&out, attr, &layer, self.size, columns)?;
        }
        activate(&out, self.act, &layer)
    }
}

/// A fully connected layer over the last dimension, as Paddle 2.x builds it.
#[derive(Clone, Debug)]
pub struct Linear {
    size: i64,
    weight: ParamAttr,
    bias: Option<ParamAttr>,
}

impl Linear {
    /// A layer with `size` outputs and Paddle's defaults.
    pub fn new(size: i64) -> Linear {
        Linear { size, weight: ParamAttr::default(), bias: Some(ParamAttr::default()) }
    }

    /// Says more about the weight.
    pub fn param_attr(mut self, attr: impl Into<ParamAttr>) -> Linear {
        self.weight = attr.into();
        self
    }

    /// Says more about the bias.
    pub fn bias_attr(mut self, attr: impl Into<ParamAttr>) -> Linear {
        self.bias = Some(attr.into());
        self
    }

    /// Leaves the bias out.
    pub fn no_bias(mut self) -> Linear {
        self.bias = None;
        self
    }

    /// Appends the layer.
    ///
    /// # Errors
    /// When the last dimension of `x` is not known, or a shared parameter has another shape.
    #[track_caller]
    pub fn apply(&self, x: &Variable) -> Result<Variable> {
        let layer = x.graph().unique_name("linear");
        let features = features(x, x.shape().len().saturating_sub(1))?;
        let weight = weight(x, &self.weight, &layer, [features, self.size])?;
        let out = op(x.graph(), "matmul_v2")
            .input("X", x)
            .input("Y", &weight)
            .attr("trans_x", false)
            .attr("trans_y", false)
            .of_layer(&layer)
            .output("Out")?;
        match &self.bias {
            Some(attr) => add_bias(&out, attr, &layer, self.size, -1),
            None => Ok(out),
        }
    }
}

#[track_caller]
fn weight(x: &Variable, attr: &ParamAttr, layer: &str, shape: [i64; 2]) -> Result<Variable> {
    let default = Initializer::default_weight();
    create_parameter(x.graph(), attr, &format!("{layer}.w"), shape, x.dtype(), &default)
}

#[track_caller]
fn add_bias(x: &Variable, attr: &ParamAttr, layer: &str, size: i64, axis: i32) -> Result<Variable> {
    let default = Initializer::default_bias();
    let prefix = format!("{layer}.b");
    let bias = create_parameter(x.graph(), attr, &prefix, [size], x.dtype(), &default)?;
    op(x.graph(), "elementwise_add")
        .input("X", x)
        .input("Y", &bias)
        .attr("axis", axis)
        .of_layer(layer)
        .output("Out")
}

/// The product of the dimensions of `x` from `first` on.
fn features(x: &Variable, first: usize) -> Result<i64> {
    let shape = x.shape();
    match shape.get(first..) {
        Some(rest) if !rest.is_empty() && rest.iter().all(|dim| *dim > 0) => {
            Ok(rest.iter().product())
        }
        _ => Err(Error::kernel(format!(
            "the number of features of `{}` is not known: it has shape {shape:?}, of which the \
             dimensions from {first} on are features",
            x.name()
        ))),
    }
}
