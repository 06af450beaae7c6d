//! The end of models: from logits to a prediction, losses and the AUC.

use bireme_engine::DType;
use bireme_engine::graph::Variable;
use bireme_engine::layers::{self, Auc, Label};

use super::Metric;
use crate::Result;

/// Paddle's `log_loss` adds this to probabilities.
const EPSILON: f32 = 1e-4;

/// What is left of a model after its logits.
#[derive(Debug)]
pub(super) struct Head {
    /// The chance of a 1: `[batch, 1]`, or of each class: `[batch, 2]`.
    pub(super) prediction: Variable,
    /// One loss for each sample, `[batch, 1]`.
    pub(super) losses: Variable,
    /// Of the prediction.
    pub(super) auc: Metric,
}

/// A logit `[batch, 1]` and a label of 0 or 1, `[batch, 1]`: sigmoid and log loss.
pub(super) fn click(logit: &Variable, label: &Variable) -> Result<Head> {
    let prediction = layers::sigmoid(logit)?;
    let losses = log_loss(&prediction, label)?;
    let auc = auc("auc", &prediction, label)?;
    Ok(Head { prediction, losses, auc })
}

/// Logits `[batch, 2]`: softmax and cross-entropy.
pub(super) fn classes(logits: &Variable, label: &Variable, options: &Auc) -> Result<Head> {
    let prediction = layers::softmax(logits)?;
    let auc = metric("auc", layers::auc(&prediction, label, options)?);
    let (losses, _) = layers::softmax_with_cross_entropy(logits, label, Label::Hard)?;
    Ok(Head { prediction, losses, auc })
}

/// The loss of a probability, one for each sample.
pub(super) fn log_loss(probability: &Variable, label: &Variable) -> Result<Variable> {
    let label = layers::cast(label, DType::F32)?;
    Ok(layers::log_loss(probability, &label, EPSILON)?)
}

/// The AUC of the probability of a 1, `[batch, 1]`.
pub(super) fn auc(name: &str, probability: &Variable, label: &Variable) -> Result<Metric> {
    let options = Auc { slide_steps: 0, ..Auc::default() };
    Ok(metric(name, layers::auc(&both(probability)?, label, &options)?))
}

/// The AUC of probabilities that are right (`[batch, 1]`) and wrong (`[batch, any]`).
pub(super) fn auc_of_pairs(right: &Variable, wrong: &Variable) -> Result<Metric> {
    let wrong = layers::reshape(wrong, &[-1, 1])?;
    let labels = [filled(right, 1.0, DType::I64)?, filled(&wrong, 0.0, DType::I64)?];
    let label = layers::concat(&[&labels[0], &labels[1]], 0)?;
    label.set_stop_gradient(true);
    auc("auc", &layers::concat(&[right, &wrong], 0)?, &label)
}

/// A tensor of the shape of `like`, all of one value; gradients stop there.
pub(super) fn filled(like: &Variable, value: f32, dtype: DType) -> Result<Variable> {
    let filled = layers::op(like.graph(), "fill_any_like")
        .input("X", like)
        .attr("value", value)
        .attr("dtype", dtype.code())
        .output("Out")?;
    filled.set_stop_gradient(true);
    Ok(filled)
}

/// The probabilities of 0 and of 1, `[batch, 2]`.
pub(super) fn both(probability: &Variable) -> Result<Variable> {
    Ok(layers::concat(&[&layers::scale(probability, -1.0, 1.0)?, probability], 1)?)
}

fn metric(name: &str, auc: layers::AucResult) -> Metric {
    Metric { name: name.to_owned(), variable: auc.auc, counts: auc.stats.to_vec() }
}
