//! The training steps that are measured, with their data made beforehand.

use std::time::Duration;

use anyhow::{Result, ensure};
use bireme_engine::graph::Graph;
use bireme_engine::layers::Label;
use bireme_engine::optimizer::{Adam, Optimizer};
use bireme_engine::random::Philox;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Step, layers};
use bireme_ir::{DType, Program};

use super::{Model, time_per_run};
use crate::demo::batch::Batch;
use crate::demo::data::Source;
use crate::demo::model::{Config, CtrDnn, perceptron};

/// Widths of the MNIST perceptron.
pub(super) const MNIST_WIDTHS: [usize; 4] = [784, 128, 128, 10];
/// Batches to go through in turn; more than any cache holds.
const BATCHES: usize = 200;
/// Rows of the embedding table of the CTR-DNN.
const ROWS: usize = 1_000_001;
const LEARNING_RATE: f32 = 1e-3;
const SEED: u64 = 1;

/// A prepared step and batches for it.
pub(super) struct Workload {
    step: Step,
    batches: Vec<Vec<Tensor>>,
    next: usize,
}

impl Workload {
    pub(super) fn new(model: Model, batch: usize, threads: usize) -> Result<Workload> {
        match model {
            Model::CtrDnn => ctr_dnn(batch, threads),
            Model::MnistMlp => mnist_mlp(batch, threads),
        }
    }

    /// Trains for about `time`; returns the seconds that one step took.
    pub(super) fn run_for(&mut self, time: Duration) -> Result<f64> {
        time_per_run(time, || {
            let feeds: Vec<&Tensor> = self.batches[self.next].iter().collect();
            self.next = (self.next + 1) % self.batches.len();
            Ok(self.step.run(&feeds)?)
        })
    }

    /// Fails when the training that was measured has diverged.
    pub(super) fn check(&self) -> Result<()> {
        let loss = self.step.fetched(0).to_f64_vec()[0];
        ensure!(loss.is_finite(), "the measured training diverged: its loss is {loss}");
        Ok(())
    }
}

fn ctr_dnn(batch: usize, threads: usize) -> Result<Workload> {
    let model = CtrDnn::build(Config { rows: ROWS, learning_rate: LEARNING_RATE, seed: SEED })?;
    let samples = Source::new(SEED, ROWS, 1)?.samples(0..(BATCHES * batch) as u64, 1);
    let batches = (0..BATCHES).map(|i| Batch::of(&samples, i * batch, batch).into_tensors());
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let step = prepare(&model.startup, &model.main, &feeds, &model.loss, threads)?;
    Ok(Workload { step, batches: batches.collect(), next: 0 })
}

fn mnist_mlp(batch: usize, threads: usize) -> Result<Workload> {
    let graph = Graph::new();
    graph.set_random_seed(SEED);
    let images = layers::data(&graph, "x", [MNIST_WIDTHS[0] as i64], DType::F32);
    let labels = layers::data(&graph, "y", [1], DType::I64);
    let logits = perceptron(images, &MNIST_WIDTHS)?;
    let (losses, _) = layers::softmax_with_cross_entropy(&logits, &labels, Label::Hard)?;
    let loss = layers::mean(&losses)?;
    Adam::new(LEARNING_RATE).minimize(&loss)?;
    let step = prepare(&graph.startup(), &graph.main(), &["x", "y"], loss.name(), threads)?;
    let batches = (0..BATCHES as u64).map(|index| images_and_labels(index, batch)).collect();
    Ok(Workload { step, batches, next: 0 })
}

/// Noise in the size of MNIST: the speed does not depend on what the images show.
fn images_and_labels(index: u64, batch: usize) -> Vec<Tensor> {
    let random = Philox::new(SEED, "images").stream(index);
    let mut pixels = vec![0.0; batch * MNIST_WIDTHS[0]];
    random.fill_uniform(0, 0.0, 1.0, &mut pixels);
    let classes = MNIST_WIDTHS[3] as u64;
    let labels: Vec<i64> = (0..batch as u64).map(|i| (random.u64(i) % classes) as i64).collect();
    let images = Tensor::from_slice([batch, MNIST_WIDTHS[0]], &pixels);
    let labels = Tensor::from_slice([batch, 1], &labels);
    vec![images.expect("the sizes fit"), labels.expect("the sizes fit")]
}

fn prepare(
    startup: &Program,
    main: &Program,
    feeds: &[&str],
    loss: &str,
    threads: usize,
) -> Result<Step> {
    let mut executor = Executor::new(Place::Cpu)?.threads(threads);
    executor.run(startup, &[], &[])?;
    Ok(executor.prepare(main, feeds, &[loss])?)
}
