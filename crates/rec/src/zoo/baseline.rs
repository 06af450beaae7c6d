//! Logistic regression for the data of any model: a weight for each id and each number, and no
//! product of anything. What a model is compared with.

use bireme_data::{Kind, Slot};
use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Embedding, Linear, ParamAttr, Pool};

use super::{Model, heads};
use crate::{Error, Result};

/// More than any id of generated data.
const IDS: i64 = 100_001;

/// Logistic regression with the slots and metrics of `like`. `labels` are the slots to predict, one
/// for each metric; none for a model of pairs, whose second slot matches the first while those
/// after it do not.
pub(super) fn build(like: &Model, labels: &[&str]) -> Result<Model> {
    let graph = Graph::new();
    let inputs: Vec<Variable> = like.slots.iter().map(|slot| declare(&graph, slot)).collect();
    let of = |name: &str| like.slots.iter().position(|slot| slot.name == name);
    let (loss, metrics, prediction) = if labels.is_empty() {
        pairs(&inputs)?
    } else {
        let features = like
            .slots
            .iter()
            .zip(&inputs)
            .filter(|(slot, _)| !labels.contains(&slot.name.as_str()));
        let features: Vec<_> = features.collect();
        let mut parts = (Vec::new(), Vec::new(), Vec::new());
        for (task, (name, metric)) in labels.iter().zip(&like.metrics).enumerate() {
            let at =
                of(name).ok_or_else(|| Error::Settings(format!("there is no slot `{name}`")))?;
            let logit = logit(&features, task)?;
            let label = layers::cast(&inputs[at], DType::I64)?;
            let head = heads::click(&logit, &label)?;
            parts.0.push(layers::mean(&head.losses)?);
            parts.1.push(super::Metric { name: metric.name.clone(), ..head.auc });
            parts.2.push(head.prediction);
        }
        let loss = layers::sum(&parts.0.iter().collect::<Vec<_>>())?;
        (loss, parts.1, layers::concat(&parts.2.iter().collect::<Vec<_>>(), 1)?)
    };
    Ok(Model {
        slots: like.slots.clone(),
        format: like.format.clone(),
        loss,
        metrics,
        prediction,
        inference_feeds: like.inference_feeds.clone(),
        graph,
    })
}

fn declare(graph: &Graph, slot: &Slot) -> Variable {
    let dtype = if slot.kind == Kind::Ids { DType::I64 } else { DType::F32 };
    match &slot.shape {
        None => layers::sequence_input(graph, &slot.name, [-1, 1], dtype, 1),
        Some(shape) => {
            let shape: Vec<i64> = shape.iter().map(|size| *size as i64).collect();
            layers::data(graph, &slot.name, shape, dtype)
        }
    }
}

/// The sum of the weights of all that a sample has.
fn logit(features: &[(&Slot, &Variable)], task: usize) -> Result<Variable> {
    let mut parts = Vec::with_capacity(features.len());
    for (slot, input) in features {
        let name = format!("{}_{task}", slot.name);
        let weights = weights(input, &name)?;
        parts.push(match (slot.kind, &slot.shape) {
            (Kind::Ids, None) => layers::sequence_pool(&weights, Pool::Sum)?,
            (Kind::Ids, Some(_)) => layers::reduce_sum(&weights, &[1], true)?,
            (Kind::Floats, _) => weights,
        });
    }
    // The bias is that of some numbers' layer, or else stands in for it.
    let bias = ParamAttr::named(format!("bias_{task}"));
    let zero = Initializer::Constant(0.0);
    let graph = parts[0].graph().clone();
    let bias = layers::create_parameter(&graph, &bias, "bias", [1], DType::F32, &zero)?;
    let sum = layers::sum(&parts.iter().collect::<Vec<_>>())?;
    Ok(layers::elementwise_add(&sum, &bias)?)
}

/// The weight of each id, `[rows, ids of a row]`, or of a row of numbers, `[rows, 1]`.
fn weights(input: &Variable, name: &str) -> Result<Variable> {
    let attr = ParamAttr::named(format!("weights_{name}")).init(Initializer::Constant(0.0));
    if input.dtype() == DType::F32 {
        return Ok(Linear::new(1).no_bias().param_attr(attr).apply(input)?);
    }
    let ids = input.shape().last().copied().unwrap_or(1);
    let weights = Embedding::new([IDS, 1]).sparse(true).param_attr(attr).apply(input)?;
    Ok(layers::reshape(&weights, &[-1, ids as i32])?)
}

/// Scores of a match and of what does not match: weights of both sides, no product of them.
fn pairs(inputs: &[Variable]) -> Result<(Variable, Vec<super::Metric>, Variable)> {
    let query = weights(&inputs[0], "query")?;
    let score = |candidate: &Variable| -> Result<Variable> {
        Ok(layers::elementwise_add(&weights(candidate, "candidate")?, &query)?)
    };
    let right = score(&inputs[1])?;
    let wrong = inputs[2..].iter().map(score).collect::<Result<Vec<_>>>()?;
    let wrong = layers::concat(&wrong.iter().collect::<Vec<_>>(), 1)?;
    let loss = |scores: &Variable, label: f32| -> Result<Variable> {
        let labels = heads::filled(scores, label, DType::F32)?;
        Ok(layers::mean(&layers::sigmoid_cross_entropy_with_logits(scores, &labels)?)?)
    };
    let total = layers::elementwise_add(&loss(&right, 1.0)?, &loss(&wrong, 0.0)?)?;
    let (right, wrong) = (layers::sigmoid(&right)?, layers::sigmoid(&wrong)?);
    let auc = heads::auc_of_pairs(&right, &wrong)?;
    Ok((total, vec![auc], right))
}
