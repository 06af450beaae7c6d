//! Neural collaborative filtering (NeuMF): a product of embeddings and a perceptron, side by side.

use bireme_data::Slot;
use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::{Fan, Initializer};
use bireme_engine::layers::{self, Embedding, ParamAttr};

use super::perceptron::{Hidden, linear_with};
use super::{Entry, Format, Hyper, Model, data, heads};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "ncf",
    area: "recall",
    summary: "Users and items: a product of embeddings beside a perceptron",
    paper: "He et al., Neural Collaborative Filtering (WWW 2017)",
    when: "When all there is are users, items, and which of them met.",
    labels: &["label"],
    sample: &[],
    build,
    generate: data::ratings::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let users = hyper.get_size("num_users", 6040)?;
    let items = hyper.get_size("num_items", 3706)?;
    let width = hyper.get_size("latent_dim", 8)?;
    let sizes = hyper.get_sizes("fc_layers", &[64, 32, 16, 8])?;
    let Some((first, hidden)) = sizes.split_first().filter(|(first, _)| *first % 2 == 0) else {
        let problem = "must begin with an even number: the widths of both embeddings together";
        return Err(hyper.refuse("fc_layers", problem));
    };
    let graph = Graph::new();
    let input = |name| layers::data(&graph, name, [1], DType::I64);
    let (user, item, label) = (input("user_input"), input("item_input"), input("label"));
    let embed = |ids: &Variable, rows: usize, width: usize| -> Result<Variable> {
        let table = Embedding::new([rows as i64, width as i64]).sparse(true);
        let table = table.param_attr(ParamAttr::from(Initializer::normal(0.0, 0.01)));
        Ok(layers::reshape(&table.apply(ids)?, &[-1, width as i32])?)
    };
    let product =
        layers::elementwise_mul(&embed(&user, users, width)?, &embed(&item, items, width)?)?;
    let half = first / 2;
    let (user_half, item_half) = (embed(&user, users, half)?, embed(&item, items, half)?);
    let deep = Hidden::new(hidden).apply(&layers::concat(&[&user_half, &item_half], 1)?)?;
    let joined = layers::concat(&[&product, &deep], 1)?;
    let fan = Fan { fan_in: Some(2.0 * joined.shape()[1] as f64), ..Fan::default() };
    let logit = linear_with(&joined, 1, Initializer::Msra(fan), Initializer::Constant(0.0))?;
    let head = heads::click(&logit, &label)?;
    Ok(Model {
        slots: vec![Slot::id("user_input"), Slot::id("item_input"), Slot::id("label")],
        format: Format::multi_slot(),
        loss: layers::mean(&head.losses)?,
        metrics: vec![head.auc],
        prediction: head.prediction,
        inference_feeds: vec!["user_input".to_owned(), "item_input".to_owned()],
        graph,
    })
}
