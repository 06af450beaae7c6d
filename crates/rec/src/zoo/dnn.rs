//! The CTR-DNN of PaddleRec's `models/rank/dnn`: slots through one embedding table, dense features,
//! a perceptron on top.

use std::io::{self, Write};

use bireme_data::Slot;
use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Act, Auc, Embedding, Fc, Label, ParamAttr};
use bireme_engine::random::Philox;

use super::{Entry, Format, Hyper, Metric, Model};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "dnn",
    summary: "Embeddings of all slots and dense features through a perceptron",
    build,
    generate,
};

const LABEL: &str = "label";
const DENSE: &str = "dense_input";

fn build(hyper: &mut Hyper) -> Result<Model> {
    // PaddleRec counts the label among the slots.
    let slots = hyper.get_size("sparse_inputs_slots", 27)? - 1;
    let rows = hyper.get_size("sparse_feature_number", 1_000_001)?;
    let width = hyper.get_size("sparse_feature_dim", 9)?;
    let dense = hyper.get_size("dense_input_dim", 13)?;
    let hidden = hyper.get_sizes("fc_sizes", &[512, 256, 128, 32])?;

    let graph = Graph::new();
    let label = layers::data(&graph, LABEL, [1], DType::I64);
    let table = Embedding::new([rows as i64, width as i64])
        .sparse(true)
        .param_attr(ParamAttr::named("SparseFeatFactors").init(Initializer::uniform(-0.05, 0.05)));
    let mut inputs = Vec::with_capacity(slots + 1);
    for slot in 1..=slots {
        let ids = layers::data(&graph, &slot.to_string(), [1], DType::I64);
        inputs.push(layers::reshape(&table.apply(&ids)?, &[-1, width as i32])?);
    }
    inputs.push(layers::data(&graph, DENSE, [dense as i64], DType::F32));
    let inputs: Vec<&Variable> = inputs.iter().collect();
    let widths = [&[slots * width + dense], hidden.as_slice(), &[2]].concat();
    let logits = perceptron(layers::concat(&inputs, 1)?, &widths)?;
    let prediction = layers::softmax(&logits)?;
    let options = Auc { num_thresholds: 4096, slide_steps: 20, ..Auc::default() };
    let auc = layers::auc(&prediction, &label, &options)?;
    let (losses, _) = layers::softmax_with_cross_entropy(&logits, &label, Label::Hard)?;
    let loss = layers::mean(&losses)?;

    let names: Vec<String> = (1..=slots).map(|slot| slot.to_string()).collect();
    let ids = names.iter().map(Slot::id);
    let all = [Slot::id(LABEL)].into_iter().chain(ids).chain([Slot::floats(DENSE, dense)]);
    let tokens = ["click".to_owned()].into_iter().chain(names.iter().cloned());
    Ok(Model {
        graph,
        slots: all.collect(),
        format: Format::SlotValue(tokens.chain(["dense_feature".to_owned()]).collect()),
        loss,
        metrics: vec![Metric {
            name: "auc".to_owned(),
            variable: auc.auc,
            counts: auc.stats.to_vec(),
        }],
        prediction,
        inference_feeds: names.into_iter().chain([DENSE.to_owned()]).collect(),
    })
}

/// Fully connected layers of these widths, with a relu after all but the last.
fn perceptron(input: Variable, widths: &[usize]) -> Result<Variable> {
    let mut hidden = input;
    for (index, pair) in widths.windows(2).enumerate() {
        let initial = Initializer::normal(0.0, 1.0 / (pair[0] as f32).sqrt());
        let act = if index + 2 < widths.len() { Act::Relu } else { Act::None };
        hidden = Fc::new(pair[1] as i64).act(act).param_attr(initial).apply(&hidden)?;
    }
    Ok(hidden)
}

/// Criteo-like lines: the chance of a click depends on a hidden weight of every id.
fn generate(out: &mut dyn Write, rows: usize, seed: u64) -> io::Result<()> {
    const SLOTS: u64 = 26;
    const IDS: f32 = 50.0;
    let random = Philox::new(seed, "samples of dnn");
    let hidden = Philox::new(seed, "hidden weights of dnn");
    for row in 0..rows as u64 {
        let stream = random.stream(row);
        // Squared, so that some ids are far more common than others.
        let ids = (0..SLOTS).map(|slot| (stream.uniform(slot).powi(2) * IDS) as u64);
        let ids: Vec<u64> = ids.enumerate().map(|(slot, id)| slot as u64 * 50 + id + 1).collect();
        let score: f32 = ids.iter().map(|id| 0.4 * hidden.normal(*id)).sum();
        let chance = 1.0 / (1.0 + (1.0 - score).exp());
        write!(out, "click:{}", u8::from(stream.uniform(1000) < chance))?;
        for feature in 0..13 {
            write!(out, " dense_feature:{:.4}", stream.uniform(100 + feature))?;
        }
        for (slot, id) in ids.iter().enumerate() {
            write!(out, " {}:{id}", slot + 1)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paddlerecs() {
        let model = build(&mut Hyper::default()).unwrap();
        assert_eq!(model.slots.len(), 28);
        assert_eq!(model.slots[27].name, "dense_input");
        let table = model.graph.main().global().var("SparseFeatFactors").cloned().unwrap();
        assert_eq!(table.shape.to_vec(), [1_000_001, 9]);
    }
}
