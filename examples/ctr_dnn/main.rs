//! A click-through-rate model built by hand: sparse embeddings, a perceptron, lazy Adam and AUC.
//!
//! The same model as `bireme train`, with every step in view. The data is generated.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use anyhow::{Context, Result, ensure};
use bireme::data::Batch;
use bireme::initializer::Initializer;
use bireme::layers::{Auc, Embedding, ParamAttr};
use bireme::prelude::*;
use bireme::rec::run::auc_of;
use bireme::rec::zoo::criteo::{DENSE, SLOTS, Source};

const EMBEDDING: i64 = 9;

/// How much there is to learn from, and with.
struct Size {
    rows: usize,
    batch: usize,
    steps: usize,
    held_out: usize,
}

/// The programs, and the names of what they take and give.
struct Model {
    graph: Graph,
    predictor: Program,
    feeds: Vec<String>,
    loss: String,
    auc: String,
    prediction: String,
}

fn main() -> Result<()> {
    ensure!(std::env::args().len() == 1, "usage: ctr_dnn (it takes no arguments)");
    let size = Size { rows: 1_000_001, batch: 512, steps: 400, held_out: 20_000 };
    let (auc, best) = train(&size)?;
    println!("held-out AUC {auc:.4} (best possible {best:.4})");
    Ok(())
}

/// Trains and evaluates; returns the AUC of the model and that of the best possible one.
fn train(size: &Size) -> Result<(f64, f64)> {
    let threads = std::thread::available_parallelism()?.get();
    let source = Source::new(1, size.rows)?;
    let samples = (size.batch * size.steps) as u64;
    let held_out = samples..samples + size.held_out as u64;
    let (train, test) = (source.samples(0..samples), source.samples(held_out.clone()));

    let model = build(size.rows)?;
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let mut executor = Executor::new(Place::Cpu)?.threads(threads);
    executor.run(&model.graph.startup(), &[], &[])?;
    let mut step = executor.prepare(&model.graph.main(), &feeds, &[&model.loss, &model.auc])?;
    let mut batch = Batch::of(&Source::slots());
    for number in 1..=size.steps {
        batch.fill(&train, (number - 1) * size.batch..number * size.batch);
        step.run(&batch.tensors())?;
        if number % 50 == 0 {
            let (loss, auc) = (step.fetched(0).to_f64_vec()[0], step.fetched(1).to_f64_vec()[0]);
            println!("step {number}  loss {loss:.4}  AUC {auc:.4}");
        }
    }

    let mut step = executor.prepare(&model.predictor, &feeds[1..], &[&model.prediction])?;
    batch.fill(&test, 0..test.len());
    step.run(&batch.tensors()[1..])?;
    let both = step.fetched(0).as_slice::<f32>()?;
    let clicks: Vec<f32> = both.iter().skip(1).step_by(2).copied().collect();
    let truth = source.truth(held_out);
    let auc =
        |scores: &[f32]| auc_of(&truth.labels, scores).context("all held-out labels are the same");
    Ok((auc(&clicks)?, auc(&truth.chances)?))
}

/// The model, for ids below `rows`.
fn build(rows: usize) -> Result<Model> {
    // Forward: every slot looks its ids up in one table; what comes out meets the dense features.
    let graph = Graph::new();
    graph.set_random_seed(1);
    let label = layers::data(&graph, "label", [1], DType::I64);
    let mut feeds = vec!["label".to_owned()];
    let table = Embedding::new([rows as i64, EMBEDDING])
        .sparse(true)
        .param_attr(ParamAttr::named("table").init(Initializer::uniform(-0.05, 0.05)));
    let mut inputs = Vec::new();
    for slot in 1..=SLOTS {
        feeds.push(slot.to_string());
        let ids = layers::data(&graph, &slot.to_string(), [1], DType::I64);
        inputs.push(layers::reshape(&table.apply(&ids)?, &[-1, EMBEDDING as i32])?);
    }
    feeds.push("dense_input".to_owned());
    inputs.push(layers::data(&graph, "dense_input", [DENSE as i64], DType::F32));
    let mut hidden = layers::concat(&inputs.iter().collect::<Vec<_>>(), 1)?;
    for width in [512, 256, 128, 32] {
        hidden = layers::fc(&hidden, width, Act::Relu)?;
    }
    let logits = layers::fc(&hidden, 2, Act::None)?;
    let prediction = layers::softmax(&logits)?;
    let auc = layers::auc(&prediction, &label, &Auc::default())?.auc;
    let (losses, _) = layers::softmax_with_cross_entropy(&logits, &label, Label::Hard)?;
    let loss = layers::mean(&losses)?;

    // The program that predicts is the forward part alone; `minimize` appends the rest.
    let without_label: Vec<&str> = feeds[1..].iter().map(String::as_str).collect();
    let predictor = graph.main().prune(&without_label, &[prediction.name()])?;
    Adam::new(1e-3).lazy_mode(true).minimize(&loss)?;
    let [loss, auc, prediction] = [&loss, &auc, &prediction].map(|var| var.name().to_owned());
    Ok(Model { graph, predictor, feeds, loss, auc, prediction })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_already_ranks_better_than_chance() {
        let size = Size { rows: 1_000, batch: 256, steps: 40, held_out: 2_000 };
        let (auc, best) = train(&size).unwrap();
        assert!((0.55..best).contains(&auc), "{auc}, best {best}");
    }
}
