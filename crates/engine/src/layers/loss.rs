//! Losses: one number for each row, to be averaged with `mean`.

use super::op;
use crate::Result;
use crate::graph::Variable;

/// How a label says what is right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Label {
    /// The number of the right class.
    #[default]
    Hard,
    /// A probability for each class.
    Soft,
}

/// Paddle's mark for rows that count for nothing.
const IGNORE_INDEX: i32 = -100;

/// `(x - label)²`.
///
/// # Errors
/// When the shapes do not fit; so for all losses.
#[track_caller]
pub fn square_error_cost(x: &Variable, label: &Variable) -> Result<Variable> {
    let layer = x.graph().unique_name("square_error_cost");
    let minus = op(x.graph(), "elementwise_sub")
        .input("X", x)
        .input("Y", label)
        .attr("axis", -1)
        .of_layer(&layer)
        .output("Out")?;
    op(x.graph(), "square").input("X", &minus).of_layer(&layer).output("Out")
}

/// The mean of `(x - label)²`.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn mse_loss(x: &Variable, label: &Variable) -> Result<Variable> {
    super::mean(&square_error_cost(x, label)?)
}

/// `-ln p[label]`, of probabilities.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn cross_entropy(probability: &Variable, label: &Variable, kind: Label) -> Result<Variable> {
    let graph = probability.graph();
    match kind {
        Label::Hard => {
            let [loss, _, _] = op(graph, "cross_entropy2")
                .input("X", probability)
                .input("Label", label)
                .attr("ignore_index", IGNORE_INDEX)
                .outputs(["Y", "XShape", "MatchX"])?;
            Ok(loss)
        }
        Label::Soft => op(graph, "cross_entropy")
            .input("X", probability)
            .input("Label", label)
            .attr("soft_label", true)
            .attr("ignore_index", IGNORE_INDEX)
            .output("Y"),
    }
}

/// `-ln softmax(logits)[label]`, and the softmax itself.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn softmax_with_cross_entropy(
    logits: &Variable,
    label: &Variable,
    kind: Label,
) -> Result<(Variable, Variable)> {
    let [softmax, loss] = op(logits.graph(), "softmax_with_cross_entropy")
        .input("Logits", logits)
        .input("Label", label)
        .attr("soft_label", kind == Label::Soft)
        .attr("ignore_index", IGNORE_INDEX)
        .attr("numeric_stable_mode", true)
        .attr("axis", -1)
        .outputs(["Softmax", "Loss"])?;
    Ok((loss, softmax))
}

/// The cross-entropy of `sigmoid(x)` and `label`, which are of one shape.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn sigmoid_cross_entropy_with_logits(x: &Variable, label: &Variable) -> Result<Variable> {
    op(x.graph(), "sigmoid_cross_entropy_with_logits")
        .input("X", x)
        .input("Label", label)
        .attr("ignore_index", IGNORE_INDEX)
        .attr("normalize", false)
        .output("Out")
}

/// The cross-entropy of a probability and a label of 0 or 1; Paddle's `epsilon` is 1e-4.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn log_loss(probability: &Variable, label: &Variable, epsilon: f32) -> Result<Variable> {
    op(probability.graph(), "log_loss")
        .input("Predicted", probability)
        .input("Labels", label)
        .attr("epsilon", epsilon)
        .output("Loss")
}

/// The cross-entropy of a probability and a label of the same shape.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn bce_loss(probability: &Variable, label: &Variable) -> Result<Variable> {
    op(probability.graph(), "bce_loss").input("X", probability).input("Label", label).output("Out")
}

/// Squared error near the label, linear farther than `delta` from it.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn huber_loss(x: &Variable, label: &Variable, delta: f32) -> Result<Variable> {
    let [_, loss] = op(x.graph(), "huber_loss")
        .input("X", x)
        .input("Y", label)
        .attr("delta", delta)
        .outputs(["Residual", "Out"])?;
    Ok(loss)
}

/// The Kullback–Leibler divergence of `target` from log-probabilities `x`; `reduction` is `none`,
/// `sum`, `mean` or `batchmean`.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn kldiv_loss(x: &Variable, target: &Variable, reduction: &str) -> Result<Variable> {
    op(x.graph(), "kldiv_loss")
        .input("X", x)
        .input("Target", target)
        .attr("reduction", reduction)
        .output("Loss")
}
