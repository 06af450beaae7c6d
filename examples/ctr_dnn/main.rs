//! A click-through-rate model built by hand: sparse embeddings, a perceptron, lazy Adam and AUC.
//!
//! The same model as `bireme train`, with every step in view. The data is generated.

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use anyhow::Result;
use bireme_cli::demo::batch::Batch;
use bireme_cli::demo::data::{DENSE, SLOTS, Source};
use bireme_cli::demo::metrics;
use bireme_engine::graph::Graph;
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Act, Auc, Embedding, Label, ParamAttr};
use bireme_engine::optimizer::{Adam, Optimizer};
use bireme_engine::{Executor, Place};
use bireme_ir::DType;

const ROWS: usize = 1_000_001;
const EMBEDDING: i64 = 9;
const BATCH: usize = 512;
const SAMPLES: usize = 400 * BATCH;
const HELD_OUT: usize = 20_000;

fn main() -> Result<()> {
    let threads = std::thread::available_parallelism()?.get();
    let source = Source::new(1, ROWS, threads)?;
    let train = source.samples(0..SAMPLES as u64, threads);
    let test = source.samples(SAMPLES as u64..(SAMPLES + HELD_OUT) as u64, threads);

    // Forward: every slot looks its ids up in one table; what comes out meets the dense features.
    let graph = Graph::new();
    graph.set_random_seed(1);
    let label = layers::data(&graph, "label", [1], DType::I64);
    let mut feeds = vec!["label".to_owned()];
    let table = Embedding::new([ROWS as i64, EMBEDDING])
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
    let predictor = graph.main().prune(&refs(&feeds[1..]), &[prediction.name()])?;
    Adam::new(1e-3).lazy_mode(true).minimize(&loss)?;

    let mut executor = Executor::new(Place::Cpu)?.threads(threads);
    executor.run(&graph.startup(), &[], &[])?;
    let mut step = executor.prepare(&graph.main(), &refs(&feeds), &[loss.name(), auc.name()])?;
    for (number, first) in (1..).zip((0..SAMPLES).step_by(BATCH)) {
        step.run(&Batch::of(&train, first, BATCH).tensors())?;
        if number % 50 == 0 {
            let (loss, auc) = (step.fetched(0).to_f64_vec()[0], step.fetched(1).to_f64_vec()[0]);
            println!("step {number}  loss {loss:.4}  AUC {auc:.4}");
        }
    }

    let mut step = executor.prepare(&predictor, &refs(&feeds[1..]), &[prediction.name()])?;
    step.run(&Batch::of(&test, 0, test.len()).tensors()[1..])?;
    let both = step.fetched(0).as_slice::<f32>()?;
    let clicks: Vec<f32> = both.iter().skip(1).step_by(2).copied().collect();
    let auc = |scores: &[f32]| metrics::auc(&test.labels, scores).unwrap_or(f64::NAN);
    println!("held-out AUC {:.4} (best possible {:.4})", auc(&clicks), auc(&test.probabilities));
    Ok(())
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
