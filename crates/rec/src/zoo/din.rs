//! Deep interest network: attention of the item at hand to each item of a user's history.

use bireme_data::Slot;
use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Embedding, ParamAttr, Pool};

use super::perceptron::{Hidden, act, linear};
use super::{Entry, Format, Hyper, Model, data, heads};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "din",
    area: "rank",
    summary: "Attention of the item at hand to each item of a user's history",
    paper: "Zhou et al., Deep Interest Network for Click-Through Rate Prediction (KDD 2018)",
    when: "When users have histories of items, only some of which bear on the item at hand.",
    labels: &["label"],
    sample: &[("item_count", 501), ("cat_count", 21)],
    build,
    generate: data::histories::generate,
};

/// Sizes of the hidden layers of both perceptrons.
const HIDDEN: [usize; 2] = [80, 40];

fn build(hyper: &mut Hyper) -> Result<Model> {
    let item_width = hyper.get_size("item_emb_size", 64)?;
    let category_width = hyper.get_size("cat_emb_size", 64)?;
    let items = hyper.get_size("item_count", 63_001)?;
    let categories = hyper.get_size("cat_count", 801)?;
    let sparse = hyper.get_bool("is_sparse", true)?;
    let distributed = hyper.get_usize("distributed_embedding", 0)? == 1;
    let act = act(hyper, "act", "sigmoid")?;

    let graph = Graph::new();
    let sequence = |name| layers::sequence_input(&graph, name, [-1, 1], DType::I64, 1);
    let (past_items, past_categories) = (sequence("hist_item_seq"), sequence("hist_cat_seq"));
    let item = layers::data(&graph, "target_item", [1], DType::I64);
    let category = layers::data(&graph, "target_cat", [1], DType::I64);
    let label = layers::data(&graph, "label", [1], DType::F32);

    let table = |name: &str, rows: usize, width: usize| {
        let size = [rows as i64, width as i64];
        Embedding::new(size).sparse(sparse).distributed(distributed).param_attr(name)
    };
    let item_table = table("item_emb", items, item_width);
    let category_table = table("cat_emb", categories, category_width);
    let embed = |items: &Variable, categories: &Variable| -> Result<Variable> {
        let items = layers::reshape(&item_table.apply(items)?, &[-1, item_width as i32])?;
        let categories = category_table.apply(categories)?;
        let categories = layers::reshape(&categories, &[-1, category_width as i32])?;
        Ok(layers::concat(&[&items, &categories], 1)?)
    };
    let (past, target) = (embed(&past_items, &past_categories)?, embed(&item, &category)?);

    // Rows of all histories lie one after the other, so that nothing is padded or masked.
    let beside = layers::sequence_expand(&target, &past, -1)?;
    let difference = layers::elementwise_sub(&past, &beside)?;
    let product = layers::elementwise_mul(&past, &beside)?;
    let pairs = layers::concat(&[&past, &beside, &difference, &product], 1)?;
    let scores = linear(&Hidden::new(&HIDDEN).act(act).apply(&pairs)?, 1)?;
    let width = item_width + category_width;
    let scores = layers::scale(&scores, 1.0 / (width as f32).sqrt(), 0.0)?;
    let weights = layers::op(&graph, "sequence_softmax").input("X", &scores).output("Out")?;
    let weighted = layers::elementwise_mul(&past, &weights)?;
    let interest = linear(&layers::sequence_pool(&weighted, Pool::Sum)?, width)?;

    let inputs = layers::concat(&[&interest, &target], 1)?;
    let logit = linear(&Hidden::new(&HIDDEN).act(act).apply(&inputs)?, 1)?;
    let zero = ParamAttr::from(Initializer::Constant(0.0));
    let bias = Embedding::new([items as i64, 1]).sparse(sparse).param_attr(zero).apply(&item)?;
    let logit = layers::elementwise_add(&logit, &layers::reshape(&bias, &[-1, 1])?)?;
    let losses = layers::sigmoid_cross_entropy_with_logits(&logit, &label)?;
    let prediction = layers::sigmoid(&logit)?;
    let auc = heads::auc("auc", &prediction, &layers::cast(&label, DType::I64)?)?;
    let inputs = ["hist_item_seq", "hist_cat_seq", "target_item", "target_cat"];
    let slots = [Slot::ids(inputs[0]), Slot::ids(inputs[1]), Slot::id(inputs[2])];
    Ok(Model {
        graph,
        slots: slots.into_iter().chain([Slot::id(inputs[3]), Slot::floats("label", 1)]).collect(),
        format: Format::multi_slot(),
        loss: layers::mean(&losses)?,
        metrics: vec![auc],
        prediction,
        inference_feeds: inputs.map(str::to_owned).to_vec(),
    })
}
