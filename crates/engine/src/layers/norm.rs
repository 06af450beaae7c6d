//! Normalisation and dropout.

use super::{Act, Apply, ParamAttr, activate, create_parameter, op};
use crate::graph::Variable;
use crate::initializer::Initializer;
use crate::{Error, Result};

/// Zeroes elements with this probability while training, and scales the others up so that their
/// expectation stays (Paddle's `upscale_in_train`).
///
/// # Errors
/// When the probability is none.
#[track_caller]
pub fn dropout(x: &Variable, probability: f32) -> Result<Variable> {
    let [out, mask] = op(x.graph(), "dropout")
        .input("X", x)
        .attr("dropout_prob", probability)
        .attr("dropout_implementation", "upscale_in_train")
        .attr("is_test", false)
        .outputs(["Out", "Mask"])?;
    mask.set_stop_gradient(true);
    Ok(out)
}

/// Batch normalisation with Paddle's defaults.
///
/// # Errors
/// When the number of channels is not known.
#[track_caller]
pub fn batch_norm(x: &Variable) -> Result<Variable> {
    BatchNorm::default().apply(x)
}

/// Layer normalisation from dimension 1 on, with Paddle's defaults.
///
/// # Errors
/// When the number of features is not known.
#[track_caller]
pub fn layer_norm(x: &Variable) -> Result<Variable> {
    LayerNorm::default().apply(x)
}

/// Normalisation by statistics of all data seen, with Paddle's defaults.
///
/// # Errors
/// When the number of features is not known.
#[track_caller]
pub fn data_norm(x: &Variable) -> Result<Variable> {
    DataNorm::default().apply(x)
}

/// Normalises each channel by the batch's mean and variance, then scales and shifts it.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    /// What it ends with.
    pub act: Act,
    /// How much of the running statistics a step keeps; 0.9 by default.
    pub momentum: f32,
    /// Added to the variance; 1e-5 by default.
    pub epsilon: f32,
    /// More about the scale.
    pub param_attr: ParamAttr,
    /// More about the shift.
    pub bias_attr: ParamAttr,
}

impl Default for BatchNorm {
    fn default() -> BatchNorm {
        let (param_attr, bias_attr) = (ParamAttr::default(), ParamAttr::default());
        BatchNorm { act: Act::None, momentum: 0.9, epsilon: 1e-5, param_attr, bias_attr }
    }
}

impl BatchNorm {
    /// Appends the layer; channels are dimension 1.
    ///
    /// # Errors
    /// When the number of channels is not known.
    #[track_caller]
    pub fn apply(&self, x: &Variable) -> Result<Variable> {
        let layer = x.graph().unique_name("batch_norm");
        let channels = [known(x, x.shape().get(1).copied())?];
        let (one, zero) = (Initializer::Constant(1.0), Initializer::Constant(0.0));
        let statistic = ParamAttr { trainable: false, ..ParamAttr::default() };
        let scale = stored(x, &self.param_attr, &layer, "w", channels, &one)?;
        let bias = stored(x, &self.bias_attr, &layer, "b", channels, &zero)?;
        let mean = stored(x, &statistic, &layer, "w", channels, &zero)?;
        let variance = stored(x, &statistic, &layer, "w", channels, &one)?;
        let [saved_mean, saved_variance, out] = op(x.graph(), "batch_norm")
            .input("X", x)
            .input("Scale", &scale)
            .input("Bias", &bias)
            .input("Mean", &mean)
            .input("Variance", &variance)
            .attr("momentum", self.momentum)
            .attr("epsilon", self.epsilon)
            .attr("is_test", false)
            .attr("data_layout", "NCHW")
            .attr("use_global_stats", false)
            .attr("trainable_statistics", false)
            .writes("MeanOut", &mean)
            .writes("VarianceOut", &variance)
            .of_layer(&layer)
            .outputs(["SavedMean", "SavedVariance", "Y"])?;
        saved_mean.set_stop_gradient(true);
        saved_variance.set_stop_gradient(true);
        activate(&out, self.act, &layer)
    }
}

/// Normalises each row by its own mean and variance, then scales and shifts it.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// The first of the dimensions that make a row; 1 by default.
    pub begin_norm_axis: usize,
    /// Added to the variance; 1e-5 by default.
    pub epsilon: f32,
    /// More about the scale; `None` leaves it out.
    pub param_attr: Option<ParamAttr>,
    /// More about the shift; `None` leaves it out.
    pub bias_attr: Option<ParamAttr>,
}

impl Default for LayerNorm {
    fn default() -> LayerNorm {
        let (param_attr, bias_attr) = (Some(ParamAttr::default()), Some(ParamAttr::default()));
        LayerNorm { begin_norm_axis: 1, epsilon: 1e-5, param_attr, bias_attr }
    }
}

impl LayerNorm {
    /// Appends the layer.
    ///
    /// # Errors
    /// When the number of features is not known.
    #[track_caller]
    pub fn apply(&self, x: &Variable) -> Result<Variable> {
        let layer = x.graph().unique_name("layer_norm");
        let shape = x.shape();
        let row = shape.get(self.begin_norm_axis..).filter(|row| row.iter().all(|dim| *dim > 0));
        let features = [known(x, row.map(|row| row.iter().product()))?];
        let (one, zero) = (Initializer::Constant(1.0), Initializer::Constant(0.0));
        let mut call: Apply = op(x.graph(), "layer_norm")
            .input("X", x)
            .attr("begin_norm_axis", self.begin_norm_axis as i32)
            .attr("epsilon", self.epsilon)
            .of_layer(&layer);
        if let Some(attr) = &self.param_attr {
            call = call.input("Scale", &stored(x, attr, &layer, "w", features, &one)?);
        }
        if let Some(attr) = &self.bias_attr {
            call = call.input("Bias", &stored(x, attr, &layer, "b", features, &zero)?);
        }
        let [mean, variance, out] = call.outputs(["Mean", "Variance", "Y"])?;
        mean.set_stop_gradient(true);
        variance.set_stop_gradient(true);
        Ok(out)
    }
}

/// Normalises each feature by counts, sums and square sums over all data seen so far.
#[derive(Clone, Debug)]
pub struct DataNorm {
    /// Prefix of its parameters; layers of one name share them. Paddle's is `dn`.
    pub name: String,
    /// Added to the variance; 1e-5 by default.
    pub epsilon: f32,
}

impl Default for DataNorm {
    fn default() -> DataNorm {
        DataNorm { name: "dn".to_owned(), epsilon: 1e-5 }
    }
}

impl DataNorm {
    /// Appends the layer; features are dimension 1.
    ///
    /// # Errors
    /// When the number of features is not known.
    #[track_caller]
    pub fn apply(&self, x: &Variable) -> Result<Variable> {
        let features = [known(x, x.shape().get(1).copied())?];
        let (start, zero) = (Initializer::Constant(1e4), Initializer::Constant(0.0));
        let named = |part: &str| ParamAttr::named(format!("{}.{part}", self.name));
        let size = stored(x, &named("batch_size"), "", "w", features, &start)?;
        let sum = stored(x, &named("batch_sum"), "", "w", features, &zero)?;
        let square_sum = stored(x, &named("batch_square_sum"), "", "w", features, &start)?;
        let [means, scales, out] = op(x.graph(), "data_norm")
            .input("X", x)
            .input("BatchSize", &size)
            .input("BatchSum", &sum)
            .input("BatchSquareSum", &square_sum)
            .attr("epsilon", self.epsilon)
            .attr("slot_dim", -1)
            .outputs(["Means", "Scales", "Y"])?;
        means.set_stop_gradient(true);
        scales.set_stop_gradient(true);
        Ok(out)
    }
}

#[track_caller]
fn stored(
    x: &Variable,
    attr: &ParamAttr,
    layer: &str,
    role: &str,
    shape: [i64; 1],
    default: &Initializer,
) -> Result<Variable> {
    create_parameter(x.graph(), attr, &format!("{layer}.{role}"), shape, x.dtype(), default)
}

fn known(x: &Variable, features: Option<i64>) -> Result<i64> {
    features.filter(|features| *features > 0).ok_or_else(|| {
        Error::kernel(format!(
            "the number of features of `{}` is not known: it has shape {:?}",
            x.name(),
            x.shape()
        ))
    })
}
