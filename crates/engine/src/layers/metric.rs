//! Metrics: accuracy of a batch, and the area under the ROC curve of a batch and of all data.

use bireme_ir::{DType, Var};

use super::op;
use crate::Result;
use crate::graph::{Graph, Variable};
use crate::initializer::Initializer;

/// The share of rows whose label is among the `k` most probable classes.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn accuracy(probability: &Variable, label: &Variable, k: i32) -> Result<Variable> {
    let graph = probability.graph();
    let layer = graph.unique_name("accuracy");
    let [values, indices] = op(graph, "top_k_v2")
        .input("X", probability)
        .attr("k", k)
        .attr("axis", -1)
        .attr("largest", true)
        .attr("sorted", false)
        .of_layer(&layer)
        .outputs(["Out", "Indices"])?;
    let [accuracy, _, _] = op(graph, "accuracy")
        .input("Out", &values)
        .input("Indices", &indices)
        .input("Label", label)
        .of_layer(&layer)
        .outputs(["Accuracy", "Correct", "Total"])?;
    accuracy.set_stop_gradient(true);
    Ok(accuracy)
}

/// Options of [`auc`].
#[derive(Clone, Debug, PartialEq)]
pub struct Auc {
    /// `ROC`, the default and the only one there is.
    pub curve: String,
    /// Buckets that predictions are counted in; 4095 by default.
    pub num_thresholds: i32,
    /// Batches that the batch AUC looks back on; 1 by default, 0 for all.
    pub slide_steps: i32,
}

impl Default for Auc {
    fn default() -> Auc {
        Auc { curve: "ROC".to_owned(), num_thresholds: 4095, slide_steps: 1 }
    }
}

/// What [`auc`] computes.
#[derive(Clone, Debug)]
pub struct AucResult {
    /// Over all batches since the statistics were last zeroed.
    pub auc: Variable,
    /// Over the last batches.
    pub batch_auc: Variable,
    /// The counts it is computed from: positives and negatives of the last batches, then of all.
    pub stats: [Variable; 4],
}

/// The area under the curve, of all data and of the last batches, from predictions of shape
/// `[batch, 2]` and labels of shape `[batch, 1]`.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn auc(prediction: &Variable, label: &Variable, options: &Auc) -> Result<AucResult> {
    let graph = prediction.graph();
    let layer = graph.unique_name("auc");
    let buckets = i64::from(options.num_thresholds) + 1;
    // Paddle's layout: the window's batches one after the other, their sum, and how far the window
    // has come; without a window, the sum alone.
    let steps = i64::from(options.slide_steps);
    let window = [(1 + steps) * buckets + i64::from(steps > 0)];
    let batch_positive = counts(graph, window)?;
    let batch_negative = counts(graph, window)?;
    let positive = counts(graph, [1, buckets])?;
    let negative = counts(graph, [1, buckets])?;
    // Declared before both ops because Paddle's names for the two results are in that order.
    let (auc, batch_auc) = (graph.temporary(&layer), graph.temporary(&layer));
    let parts = [
        (&batch_auc, &batch_positive, &batch_negative, options.slide_steps),
        (&auc, &positive, &negative, 0),
    ];
    for (out, positive, negative, slide_steps) in parts {
        op(graph, "auc")
            .input("Predict", prediction)
            .input("Label", label)
            .input("StatPos", positive)
            .input("StatNeg", negative)
            .attr("curve", options.curve.as_str())
            .attr("num_thresholds", options.num_thresholds)
            .attr("slide_steps", slide_steps)
            .writes("AUC", out)
            .writes("StatPosOut", positive)
            .writes("StatNegOut", negative)
            .run()?;
        out.set_stop_gradient(true);
    }
    Ok(AucResult { auc, batch_auc, stats: [batch_positive, batch_negative, positive, negative] })
}

/// A persistable tensor of zero counts.
#[track_caller]
fn counts(graph: &Graph, shape: impl Into<Vec<i64>>) -> Result<Variable> {
    let mut var = Var::tensor(graph.unique_name("_generated_var"), DType::I64, shape);
    (var.persistable, var.stop_gradient) = (true, true);
    let init = Initializer::Constant(0.0).op(&var)?;
    Ok(graph.persistable(var, init))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::data;

    #[test]
    fn counts_fit_any_window() {
        for slide_steps in [0, 1, 3] {
            let graph = Graph::new();
            let prediction = data(&graph, "prediction", [2], DType::F32);
            let label = data(&graph, "label", [1], DType::I64);
            let options = Auc { slide_steps, ..Auc::default() };
            auc(&prediction, &label, &options).unwrap();
        }
    }
}
