//! Skip-gram with negative sampling: words by the company they keep.

use bireme_data::Slot;
use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Embedding, ParamAttr};

use super::{Entry, Format, Hyper, Model, data, heads};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "word2vec",
    area: "recall",
    summary: "Words, or items of sessions, by the company they keep",
    paper: "Mikolov et al., Distributed Representations of Words and Phrases (NIPS 2013)",
    when: "For embeddings from sequences without labels; the classic of geo mode.",
    labels: &[],
    sample: &[],
    build,
    generate: data::words::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let words = hyper.get_size("sparse_feature_number", 1000)? as i64;
    let width = hyper.get_size("sparse_feature_dim", 300)? as i64;
    let negatives = hyper.get_size("neg_num", data::words::NEGATIVES)?;
    let shuffle = hyper.get_bool("with_shuffle_batch", false)?;

    let graph = Graph::new();
    let word = layers::data(&graph, "input_word", [1], DType::I64);
    let near = layers::data(&graph, "true_label", [1], DType::I64);
    let spread = 0.5 / width as f32;
    let table = |name: &str, width: i64, initial: Initializer| {
        let attr = ParamAttr::named(name).init(initial);
        Embedding::new([words, width]).sparse(true).param_attr(attr)
    };
    let inputs = table("emb", width, Initializer::uniform(-spread, spread));
    let outputs = table("emb_w", width, Initializer::Constant(0.0));
    let biases = table("emb_b", 1, Initializer::Constant(0.0));

    let word = inputs.apply(&word)?;
    let score = |outputs: &Variable, biases: &Variable, count: usize| -> Result<Variable> {
        let products = layers::matmul_transposed(&word, outputs, false, true)?;
        let products = layers::reshape(&products, &[-1, count as i32])?;
        let biases = layers::reshape(biases, &[-1, count as i32])?;
        Ok(layers::elementwise_add(&products, &biases)?)
    };
    let (near_outputs, near_biases) = (outputs.apply(&near)?, biases.apply(&near)?);
    let right = score(&near_outputs, &near_biases, 1)?;
    let mut slots = vec![Slot::id("input_word"), Slot::id("true_label")];
    let wrong = if shuffle {
        // The words of other samples of the batch are the negatives.
        let mut scores = Vec::with_capacity(negatives);
        for _ in 0..negatives {
            let near = shuffled(&layers::concat(&[&near_outputs, &near_biases], 2)?)?;
            let parts = layers::split_sections(&near, &[width as i32, 1], 2)?;
            scores.push(score(&parts[0], &parts[1], 1)?);
        }
        layers::concat(&scores.iter().collect::<Vec<_>>(), 1)?
    } else {
        let far = layers::data(&graph, "neg_label", [negatives as i64], DType::I64);
        slots.push(Slot { shape: Some(vec![negatives]), ..Slot::id("neg_label") });
        score(&outputs.apply(&far)?, &biases.apply(&far)?, negatives)?
    };
    let loss = layers::elementwise_add(&mean_loss(&right, 1.0)?, &mean_loss(&wrong, 0.0)?)?;
    // How well two words go together; the words' embeddings themselves are the table `emb`.
    let prediction = layers::sigmoid(&right)?;
    let auc = heads::auc_of_pairs(&prediction, &layers::sigmoid(&wrong)?)?;
    Ok(Model {
        slots,
        format: Format::multi_slot(),
        loss,
        metrics: vec![auc],
        prediction,
        inference_feeds: vec!["input_word".to_owned(), "true_label".to_owned()],
        graph,
    })
}

/// The mean cross-entropy of scores that all have one label.
fn mean_loss(scores: &Variable, label: f32) -> Result<Variable> {
    let labels = heads::filled(scores, label, DType::F32)?;
    Ok(layers::mean(&layers::sigmoid_cross_entropy_with_logits(scores, &labels)?)?)
}

/// The rows of a batch in another order.
fn shuffled(x: &Variable) -> Result<Variable> {
    let call = layers::op(x.graph(), "shuffle_batch").input("X", x).attr("startup_seed", 0);
    let [out, places] = call.outputs(["Out", "ShuffleIdx"])?;
    places.set_stop_gradient(true);
    Ok(out)
}
