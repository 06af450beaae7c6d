//! Deep structured semantic model: queries and documents in one space, near when they match.

use bireme_data::Slot;
use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::{Fan, Initializer};
use bireme_engine::layers::{self, Act, Linear, ParamAttr};

use super::perceptron::{KNOWN, act_named, activate};
use super::{Entry, Format, Hyper, Model, Value, data, heads};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "dssm",
    area: "match",
    summary: "Queries and documents in one space, near when they match",
    paper: "Huang et al., Learning Deep Structured Semantic Models (CIKM 2013)",
    when: "For recall by nearest neighbours: documents are embedded once and looked up by query.",
    labels: &[],
    sample: &[("trigram_d", 300)],
    build,
    generate: data::queries::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let features = hyper.get_size("trigram_d", 2900)?;
    let negatives = hyper.get_size("neg_num", 1)?;
    let counted = hyper.get_usize("slice_end", 0)?;
    let sizes = hyper.get_sizes("fc_sizes", &[300, 300, 128])?;
    let acts = acts(hyper, sizes.len())?;

    let graph = Graph::new();
    let input = |name: &str| layers::data(&graph, name, [features as i64], DType::F32);
    let (query, right) = (input("query"), input("doc_pos"));
    let wrong: Vec<String> = (0..negatives).map(|number| format!("doc_neg_{number}")).collect();
    let query = tower("query", &query, &sizes, &acts)?;
    let near = similarity(&query, &tower("doc", &right, &sizes, &acts)?)?;
    let mut all = vec![near.clone()];
    for name in &wrong {
        all.push(similarity(&query, &tower("doc", &input(name), &sizes, &acts)?)?);
    }
    let all = layers::concat(&all.iter().collect::<Vec<_>>(), 1)?;
    let mut hit = layers::slice(&layers::softmax(&all)?, &[1], &[0], &[1])?;
    if counted > 0 {
        // PaddleRec's `slice_end` is how many samples of a batch count.
        hit = layers::slice(&hit, &[0], &[0], &[counted as i32])?;
    }
    let loss = layers::scale(&layers::mean(&layers::log(&hit)?)?, -1.0, 0.0)?;
    // Similarities are between -1 and 1; the AUC takes what is between 0 and 1.
    let half = layers::scale(&all, 0.5, 0.5)?;
    let halves = layers::split_sections(&half, &[1, negatives as i32], 1)?;
    let auc = heads::auc_of_pairs(&halves[0], &halves[1])?;
    let names = ["query", "doc_pos"].into_iter().chain(wrong.iter().map(String::as_str));
    Ok(Model {
        slots: names.map(|name| Slot::floats(name, features)).collect(),
        format: Format::multi_slot(),
        loss,
        metrics: vec![auc],
        prediction: near,
        inference_feeds: vec!["query".to_owned(), "doc_pos".to_owned()],
        graph,
    })
}

/// Layers whose parameters are called after the tower, for documents share theirs.
fn tower(name: &str, x: &Variable, sizes: &[usize], acts: &[Act]) -> Result<Variable> {
    let mut hidden = x.clone();
    for (number, (size, act)) in sizes.iter().zip(acts).enumerate() {
        let fans = (Some(hidden.shape()[1] as f64), Some(*size as f64));
        let fan = Fan { fan_in: fans.0, fan_out: fans.1, ..Fan::normal() };
        let attr = |part: &str| {
            let attr = ParamAttr::named(format!("{name}_linear_{number}.{part}"));
            attr.init(Initializer::Xavier(fan))
        };
        let layer = Linear::new(*size as i64).param_attr(attr("w")).bias_attr(attr("b"));
        hidden = activate(&layer.apply(&hidden)?, *act)?;
    }
    Ok(hidden)
}

/// The cosine of two rows, `[batch, 1]`; 0 where one is all zeros, as relus can leave it.
fn similarity(x: &Variable, y: &Variable) -> Result<Variable> {
    let sum = |x: Variable| layers::reduce_sum(&x, &[1], true);
    let shrink =
        |x: &Variable| layers::rsqrt(&layers::scale(&sum(layers::square(x)?)?, 1.0, 1e-8)?);
    let product = sum(layers::elementwise_mul(x, y)?)?;
    let shrunk = layers::elementwise_mul(&product, &shrink(x)?)?;
    Ok(layers::elementwise_mul(&shrunk, &shrink(y)?)?)
}

/// The activation of each layer: `fc_acts`, relu by default.
fn acts(hyper: &mut Hyper, count: usize) -> Result<Vec<Act>> {
    let Some(node) = hyper.node("fc_acts") else { return Ok(vec![Act::Relu; count]) };
    let named = |value: &Value| match value {
        Value::Text(name) => act_named(name),
        _ => None,
    };
    let acts: Option<Vec<Act>> = match &node.value {
        Value::List(items) => items.iter().map(|item| named(&item.value)).collect(),
        _ => None,
    };
    acts.filter(|acts| acts.len() == count).ok_or_else(|| {
        let problem = format!("must be a list of {count} activations: {KNOWN} known");
        hyper.refuse("fc_acts", problem)
    })
}
