//! The training steps that are measured, with their data made beforehand.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bireme_data::Batch;
use bireme_engine::amp::{Amp, MixedPrecision};
use bireme_engine::graph::Graph;
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{Act, Fc, Label};
use bireme_engine::optimizer::{Adam, Optimizer};
use bireme_engine::random::Philox;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Step, StepTimes, layers};
use bireme_ir::{DType, Program};
use bireme_rec::zoo::criteo::{DENSE, SLOTS, Source};
use bireme_rec::zoo::{self, Hyper};

use super::{Case, Model, time_per_run};

/// Widths of the perceptron of the model `dnn`, from embeddings of nine numbers on.
pub(super) const CTR_DNN_WIDTHS: [usize; 6] = [SLOTS * 9 + DENSE, 512, 256, 128, 32, 2];
/// Widths of the MNIST perceptron.
pub(super) const MNIST_WIDTHS: [usize; 4] = [784, 128, 128, 10];
/// Batches to go through in turn; more than any cache holds.
const BATCHES: usize = 200;
/// Rows of the embedding table of the CTR-DNN, as the model has by default.
const ROWS: usize = 1_000_001;
const LEARNING_RATE: f32 = 1e-3;
const SEED: u64 = 1;

/// How a step trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// Lets other threads train the same parameters.
    Shared,
    /// Products round their factors to `bfloat16`.
    Half,
    /// As plain, and says where its time goes.
    Timed,
}

/// A prepared step and batches for it.
pub(super) struct Workload {
    step: Step,
    batches: Vec<Vec<Tensor>>,
    next: usize,
}

impl Workload {
    /// The step of a case.
    pub(super) fn new(case: &Case, kind: Kind) -> Result<Workload> {
        let executor = Executor::new(Place::Cpu)?.threads(case.threads);
        let executor = executor.hogwild(kind == Kind::Shared).timed(kind == Kind::Timed);
        match case.model {
            Model::CtrDnn => ctr_dnn(case.batch, executor, kind == Kind::Half),
            Model::MnistMlp => mnist_mlp(case.batch, executor),
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

    /// Where the time of a [`Kind::Timed`] one went so far.
    pub(super) fn times(&self) -> StepTimes {
        self.step.times().unwrap_or_default()
    }

    /// Fails when the training that was measured has diverged.
    pub(super) fn check(&self) -> Result<()> {
        let loss = self.step.fetched(0).to_f64_vec()[0];
        ensure!(loss.is_finite(), "the measured training diverged: its loss is {loss}");
        Ok(())
    }
}

fn ctr_dnn(batch: usize, executor: Executor, half: bool) -> Result<Workload> {
    let dnn = zoo::find("dnn").context("the zoo has the model `dnn`")?;
    let model = (dnn.build)(&mut Hyper::default())?;
    model.graph.set_random_seed(SEED);
    let adam = Adam::new(LEARNING_RATE).lazy_mode(true);
    match half {
        true => MixedPrecision::new(adam, Amp::new(DType::BF16)?).minimize(&model.loss)?,
        false => adam.minimize(&model.loss)?,
    };
    let samples = Source::new(SEED, ROWS)?.samples(0..(BATCHES * batch) as u64);
    let batches = (0..BATCHES).map(|at| {
        let mut tensors = Batch::of(&model.slots);
        tensors.fill(&samples, at * batch..(at + 1) * batch);
        tensors.tensors().into_iter().cloned().collect()
    });
    let batches = batches.collect();
    let feeds: Vec<&str> = model.slots.iter().map(|slot| slot.name.as_str()).collect();
    let (startup, main) = (model.graph.startup(), model.graph.main());
    let step = prepare(&startup, &main, &feeds, model.loss.name(), executor)?;
    Ok(Workload { step, batches, next: 0 })
}

fn mnist_mlp(batch: usize, executor: Executor) -> Result<Workload> {
    let graph = Graph::new();
    graph.set_random_seed(SEED);
    let images = layers::data(&graph, "x", [MNIST_WIDTHS[0] as i64], DType::F32);
    let labels = layers::data(&graph, "y", [1], DType::I64);
    let mut logits = images;
    for (at, pair) in MNIST_WIDTHS.windows(2).enumerate() {
        let initial = Initializer::normal(0.0, 1.0 / (pair[0] as f32).sqrt());
        let act = if at + 2 < MNIST_WIDTHS.len() { Act::Relu } else { Act::None };
        logits = Fc::new(pair[1] as i64).act(act).param_attr(initial).apply(&logits)?;
    }
    let (losses, _) = layers::softmax_with_cross_entropy(&logits, &labels, Label::Hard)?;
    let loss = layers::mean(&losses)?;
    Adam::new(LEARNING_RATE).minimize(&loss)?;
    let step = prepare(&graph.startup(), &graph.main(), &["x", "y"], loss.name(), executor)?;
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
    mut executor: Executor,
) -> Result<Step> {
    executor.run(startup, &[], &[])?;
    Ok(executor.prepare(main, feeds, &[loss])?)
}
