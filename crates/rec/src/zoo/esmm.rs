//! Entire space multi-task model: conversions are learnt on all impressions, as the product of the
//! chance of a click and that of a conversion after one.

use bireme_data::Slot;
use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Embedding, ParamAttr};

use super::perceptron::perceptron;
use super::{Entry, Format, Hyper, Model, data, heads};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "esmm",
    area: "multitask",
    summary: "Clicks and conversions together, learnt on all impressions",
    paper: "Ma et al., Entire Space Multi-Task Model (SIGIR 2018)",
    when: "When conversions follow clicks and are too rare to be learnt on clicks alone.",
    labels: &["ctr", "cvr"],
    sample: &[("sparse_feature_number", 1500)],
    build,
    generate: data::conversions::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let rows = hyper.get_size("sparse_feature_number", 737_946)?;
    let width = hyper.get_size("sparse_feature_dim", 12)?;
    let fields = hyper.get_size("num_field", data::conversions::FIELDS)?;
    let ids_per_field = hyper.get_size("max_len", data::conversions::IDS_PER_FIELD)?;
    let click_sizes = hyper.get_sizes("ctr_fc_sizes", &[256, 64])?;
    let conversion_sizes = hyper.get_sizes("cvr_fc_sizes", &[256, 64])?;

    let graph = Graph::new();
    let names: Vec<String> = (0..fields).map(|field| format!("field_{field}")).collect();
    let ids = |name: &String| layers::data(&graph, name, [ids_per_field as i64], DType::I64);
    let ids: Vec<Variable> = names.iter().map(ids).collect();
    let click = layers::data(&graph, "ctr", [1], DType::I64);
    let conversion = layers::data(&graph, "cvr", [1], DType::I64);

    // Id 0 fills up fields that have fewer ids, and its embedding is zeros.
    let initial = Initializer::uniform(-0.05, 0.05);
    let table = Embedding::new([rows as i64, width as i64])
        .sparse(true)
        .padding_idx(0)
        .param_attr(ParamAttr::named("SparseFeatFactors").init(initial));
    let all = table.apply(&layers::concat(&ids.iter().collect::<Vec<_>>(), 1)?)?;
    let shape = [-1, fields as i32, ids_per_field as i32, width as i32];
    let summed = layers::reduce_sum(&layers::reshape(&all, &shape)?, &[2], false)?;
    let inputs = layers::reshape(&summed, &[-1, (fields * width) as i32])?;

    let chance = |sizes: &[usize]| -> Result<Variable> {
        let both = layers::softmax(&perceptron(&inputs, sizes, 2)?)?;
        Ok(layers::slice(&both, &[1], &[1], &[2])?)
    };
    let click_chance = chance(&click_sizes)?;
    let both_chance = layers::elementwise_mul(&click_chance, &chance(&conversion_sizes)?)?;
    let losses = layers::elementwise_add(
        &heads::log_loss(&click_chance, &click)?,
        &heads::log_loss(&both_chance, &conversion)?,
    )?;
    let metrics = vec![
        heads::auc("auc_ctr", &click_chance, &click)?,
        heads::auc("auc_ctcvr", &both_chance, &conversion)?,
    ];
    let field = |name: &String| Slot { shape: Some(vec![ids_per_field]), ..Slot::id(name.clone()) };
    Ok(Model {
        slots: names.iter().map(field).chain([Slot::id("ctr"), Slot::id("cvr")]).collect(),
        format: Format::multi_slot(),
        loss: layers::mean(&losses)?,
        metrics,
        prediction: layers::concat(&[&click_chance, &both_chance], 1)?,
        inference_feeds: names,
        graph,
    })
}
