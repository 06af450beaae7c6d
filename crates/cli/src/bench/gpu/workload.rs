//! The steps that are measured, as a user would write them, and their batches.

use std::sync::Arc;

use anyhow::{Result, ensure};
use bireme_engine::amp::{Amp, MixedPrecision};
use bireme_engine::device::{Device, DeviceTensor};
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Act, Embedding, Fc, Label};
use bireme_engine::optimizer::{Adagrad, Adam, Optimizer};
use bireme_engine::random::Philox;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Feed, Step};
use bireme_ir::DType;

const SLOTS: usize = 26;
const DENSE: usize = 13;
const ROWS: usize = 10_000_000;
const WIDTH: usize = 16;
const SEED: u64 = 1;

/// A prepared step and batches for it.
pub(super) struct Workload {
    step: Step,
    /// The same step, which also fetches the loss.
    shown: Step,
    batches: Vec<Batch>,
    next: usize,
}

enum Batch {
    Host(Vec<Tensor>),
    Card(Vec<DeviceTensor>),
}

impl Batch {
    fn feeds(&self) -> Vec<Feed<'_>> {
        match self {
            Batch::Host(tensors) => tensors.iter().map(Feed::Host).collect(),
            Batch::Card(tensors) => tensors.iter().map(Feed::Card).collect(),
        }
    }
}

impl Workload {
    /// The CTR-DNN with one table for all slots.
    pub(super) fn ctr_dnn(
        device: &Arc<dyn Device>,
        batch: usize,
        on_card: bool,
        amp: Option<Amp>,
    ) -> Result<Workload> {
        let graph = Graph::new();
        graph.set_random_seed(SEED);
        let ids = layers::data(&graph, "ids", [SLOTS as i64], DType::I64);
        let dense = layers::data(&graph, "dense", [DENSE as i64], DType::F32);
        let label = layers::data(&graph, "label", [1], DType::F32);
        let rows = Embedding::new([ROWS as i64, WIDTH as i64])
            .sparse(true)
            .param_attr(Initializer::uniform(-0.05, 0.05))
            .apply(&ids)?;
        let rows = layers::reshape(&rows, &[-1, (SLOTS * WIDTH) as i32])?;
        let mut hidden = layers::concat(&[&rows, &dense], 1)?;
        for width in [512, 256, 128, 32] {
            hidden = layers::fc(&hidden, width, Act::Relu)?;
        }
        let logit = layers::fc(&hidden, 1, Act::None)?;
        let loss = layers::mean(&layers::sigmoid_cross_entropy_with_logits(&logit, &label)?)?;
        minimize(Adagrad::new(0.01), &loss, amp)?;
        let count = if batch <= 2048 { 32 } else { 8 };
        let batches = (0..count).map(|at| clicks(at, batch)).collect();
        Workload::new(device, &graph, &["ids", "dense", "label"], loss.name(), batches, on_card)
    }

    /// The perceptron of the MNIST example.
    pub(super) fn mnist_mlp(
        device: &Arc<dyn Device>,
        batch: usize,
        on_card: bool,
        amp: Option<Amp>,
    ) -> Result<Workload> {
        let graph = Graph::new();
        graph.set_random_seed(SEED);
        let images = layers::data(&graph, "x", [784], DType::F32);
        let labels = layers::data(&graph, "y", [1], DType::I64);
        let mut logits = images;
        for (width, act) in [(128, Act::Relu), (128, Act::Relu), (10, Act::None)] {
            logits = Fc::new(width).act(act).apply(&logits)?;
        }
        let (losses, _) = layers::softmax_with_cross_entropy(&logits, &labels, Label::Hard)?;
        let loss = layers::mean(&losses)?;
        minimize(Adam::new(1e-3), &loss, amp)?;
        let batches = (0..16).map(|at| images_and_labels(at, batch)).collect();
        Workload::new(device, &graph, &["x", "y"], loss.name(), batches, on_card)
    }

    fn new(
        device: &Arc<dyn Device>,
        graph: &Graph,
        feeds: &[&str],
        loss: &str,
        batches: Vec<Vec<Tensor>>,
        on_card: bool,
    ) -> Result<Workload> {
        let mut executor = Executor::on(Arc::clone(device));
        executor.run(&graph.startup(), &[], &[])?;
        let step = executor.prepare(&graph.main(), feeds, &[])?;
        let shown = executor.prepare(&graph.main(), feeds, &[loss])?;
        let mut placed = Vec::new();
        for batch in batches {
            placed.push(if on_card {
                let upload = |tensor: &Tensor| DeviceTensor::upload(device.as_ref(), tensor);
                Batch::Card(batch.iter().map(upload).collect::<bireme_engine::Result<_>>()?)
            } else {
                Batch::Host(batch)
            });
        }
        Ok(Workload { step, shown, batches: placed, next: 0 })
    }

    /// Runs every batch until all are recorded.
    pub(super) fn warm_up(&mut self) -> Result<()> {
        (0..2 * self.batches.len() + 2).try_for_each(|_| self.step())
    }

    /// Trains one batch; does not wait for its end.
    pub(super) fn step(&mut self) -> Result<()> {
        let feeds = self.batches[self.next].feeds();
        self.next = (self.next + 1) % self.batches.len();
        Ok(self.step.run_fed(&feeds)?)
    }

    /// Trains one more batch, and looks at its loss.
    pub(super) fn loss(&mut self) -> Result<f64> {
        self.shown.run_fed(&self.batches[0].feeds())?;
        let loss = self.shown.fetched(0).to_f64_vec()[0];
        ensure!(loss.is_finite(), "the measured training diverged: its loss is {loss}");
        Ok(loss)
    }
}

/// Trains for `loss`, with mixed precision where it is asked for.
fn minimize(optimizer: impl Optimizer, loss: &Variable, amp: Option<Amp>) -> Result<()> {
    match amp {
        Some(amp) => MixedPrecision::new(optimizer, amp).minimize(loss)?,
        None => optimizer.minimize(loss)?,
    };
    Ok(())
}

/// Ids skewed as `u⁴`, as the measured peer draws them.
fn clicks(index: u64, batch: usize) -> Vec<Tensor> {
    let random = Philox::new(SEED, "clicks").stream(index);
    let id = |i: u64| {
        let u = f64::from(random.uniform(i));
        ((u.powi(4) * ROWS as f64) as i64).min(ROWS as i64 - 1)
    };
    let ids: Vec<i64> = (0..(batch * SLOTS) as u64).map(id).collect();
    let mut dense = vec![0.0; batch * DENSE];
    random.fill_uniform(1 << 32, 0.0, 1.0, &mut dense);
    let label = |i: u64| f32::from(random.uniform((1 << 33) + i) < 0.25);
    let label: Vec<f32> = (0..batch as u64).map(label).collect();
    let tensors = [
        Tensor::from_slice([batch, SLOTS], &ids),
        Tensor::from_slice([batch, DENSE], &dense),
        Tensor::from_slice([batch, 1], &label),
    ];
    tensors.map(|tensor| tensor.expect("the sizes fit")).into()
}

fn images_and_labels(index: u64, batch: usize) -> Vec<Tensor> {
    let random = Philox::new(SEED, "images").stream(index);
    let mut pixels = vec![0.0; batch * 784];
    random.fill_uniform(0, 0.0, 1.0, &mut pixels);
    let labels: Vec<i64> = (0..batch as u64).map(|i| (random.u64(i) % 10) as i64).collect();
    let tensors =
        [Tensor::from_slice([batch, 784], &pixels), Tensor::from_slice([batch, 1], &labels)];
    tensors.map(|tensor| tensor.expect("the sizes fit")).into()
}
