//! The steps that are measured, as a user would write them, and their batches.

use std::sync::Arc;

use anyhow::{Result, ensure};
use bireme_engine::amp::{Amp, MixedPrecision};
use bireme_engine::device::{Device, DeviceTensor};
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Act, Embedding, Label};
use bireme_engine::optimizer::{Adagrad, Adam, Optimizer};
use bireme_engine::random::Philox;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Feed, Step};
use bireme_fleet::collective::Rings;
use bireme_ir::{DType, Program};

const SLOTS: usize = 26;
const DENSE: usize = 13;
const WIDTH: usize = 16;
const SEED: u64 = 1;

/// A training program with batches for it.
pub(super) struct Net {
    pub(super) startup: Program,
    pub(super) main: Program,
    /// The program before it was differentiated, for predictions.
    pub(super) forward: Program,
    pub(super) feeds: Vec<&'static str>,
    pub(super) loss: String,
    /// What it predicts.
    pub(super) logits: String,
    pub(super) batches: Vec<Vec<Tensor>>,
    /// One that is not trained on.
    pub(super) unseen: Vec<Tensor>,
}

impl Net {
    /// The CTR-DNN with one table for all slots and layers of these widths.
    pub(super) fn ctr_dnn(
        rows: usize,
        widths: &[i64],
        batch: usize,
        count: usize,
        amp: Option<Amp>,
    ) -> Result<Net> {
        let graph = seeded();
        let ids = layers::data(&graph, "ids", [SLOTS as i64], DType::I64);
        let dense = layers::data(&graph, "dense", [DENSE as i64], DType::F32);
        let label = layers::data(&graph, "label", [1], DType::F32);
        let looked_up = Embedding::new([rows as i64, WIDTH as i64])
            .sparse(true)
            .param_attr(Initializer::uniform(-0.05, 0.05))
            .apply(&ids)?;
        let looked_up = layers::reshape(&looked_up, &[-1, (SLOTS * WIDTH) as i32])?;
        let features = layers::concat(&[&looked_up, &dense], 1)?;
        let logit = perceptron(&features, widths)?;
        let losses = layers::sigmoid_cross_entropy_with_logits(&logit, &label)?;
        let batch_at = |at| clicks(at, rows, batch);
        let optimizer = mixed(Adagrad::new(0.01), amp);
        let feeds = vec!["ids", "dense", "label"];
        Net::new(&graph, feeds, &logit, &losses, optimizer.as_ref(), count, batch_at)
    }

    /// The perceptron of the MNIST example, with layers of these widths.
    pub(super) fn mnist_mlp(
        widths: &[i64],
        batch: usize,
        count: usize,
        amp: Option<Amp>,
    ) -> Result<Net> {
        let graph = seeded();
        let images = layers::data(&graph, "x", [784], DType::F32);
        let labels = layers::data(&graph, "y", [1], DType::I64);
        let logits = perceptron(&images, widths)?;
        let (losses, _) = layers::softmax_with_cross_entropy(&logits, &labels, Label::Hard)?;
        let batch_at = |at| images_and_labels(at, batch);
        let optimizer = mixed(Adam::new(1e-3), amp);
        Net::new(&graph, vec!["x", "y"], &logits, &losses, optimizer.as_ref(), count, batch_at)
    }

    fn new(
        graph: &Graph,
        feeds: Vec<&'static str>,
        logits: &Variable,
        losses: &Variable,
        optimizer: &dyn Optimizer,
        count: usize,
        batch_at: impl Fn(u64) -> Vec<Tensor>,
    ) -> Result<Net> {
        let loss = layers::mean(losses)?;
        let forward = graph.main();
        optimizer.minimize(&loss)?;
        Ok(Net {
            startup: graph.startup(),
            main: graph.main(),
            forward,
            feeds,
            loss: loss.name().to_owned(),
            logits: logits.name().to_owned(),
            batches: (0..count as u64).map(&batch_at).collect(),
            unseen: batch_at(count as u64),
        })
    }
}

/// An optimizer that trains with mixed precision where that is asked for.
fn mixed(optimizer: impl Optimizer + 'static, amp: Option<Amp>) -> Box<dyn Optimizer> {
    match amp {
        Some(amp) => Box::new(MixedPrecision::new(optimizer, amp)),
        None => Box::new(optimizer),
    }
}

fn seeded() -> Graph {
    let graph = Graph::new();
    graph.set_random_seed(SEED);
    graph
}

/// Layers of these widths, all but the last with a ReLU.
fn perceptron(features: &Variable, widths: &[i64]) -> Result<Variable> {
    let mut hidden = features.clone();
    for (at, width) in widths.iter().enumerate() {
        let act = if at + 1 < widths.len() { Act::Relu } else { Act::None };
        hidden = layers::fc(&hidden, *width, act)?;
    }
    Ok(hidden)
}

/// A prepared step and batches for it.
pub(super) struct Workload {
    step: Step,
    /// The same step, which also fetches the loss.
    shown: Step,
    batches: Vec<Batch>,
    unseen: Batch,
    next: usize,
}

enum Batch {
    Host(Vec<Tensor>),
    Card(Vec<DeviceTensor>),
}

impl Batch {
    fn new(device: &Arc<dyn Device>, tensors: Vec<Tensor>, on_card: bool) -> Result<Batch> {
        if !on_card {
            return Ok(Batch::Host(tensors));
        }
        let upload = |tensor: &Tensor| DeviceTensor::upload(device.as_ref(), tensor);
        Ok(Batch::Card(tensors.iter().map(upload).collect::<bireme_engine::Result<_>>()?))
    }

    fn feeds(&self) -> Vec<Feed<'_>> {
        match self {
            Batch::Host(tensors) => tensors.iter().map(Feed::Host).collect(),
            Batch::Card(tensors) => tensors.iter().map(Feed::Card).collect(),
        }
    }
}

impl Workload {
    /// Makes the parameters of a net, and puts its batches in place.
    pub(super) fn new(device: &Arc<dyn Device>, net: Net, on_card: bool) -> Result<Workload> {
        Workload::among(device, net, on_card, None)
    }

    /// As [`Workload::new`], of one of several ranks.
    pub(super) fn among(
        device: &Arc<dyn Device>,
        net: Net,
        on_card: bool,
        rings: Option<Arc<Rings>>,
    ) -> Result<Workload> {
        let mut executor = Executor::on(Arc::clone(device));
        executor.join(rings.map(|rings| rings as _));
        executor.run(&net.startup, &[], &[])?;
        let step = executor.prepare(&net.main, &net.feeds, &[])?;
        let shown = executor.prepare(&net.main, &net.feeds, &[&net.loss])?;
        let place = |tensors| Batch::new(device, tensors, on_card);
        let batches = net.batches.into_iter().map(place).collect::<Result<_>>()?;
        Ok(Workload { step, shown, batches, unseen: place(net.unseen)?, next: 0 })
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

    /// The loss of a batch that was not trained on yet.
    pub(super) fn unseen_loss(&mut self) -> Result<f64> {
        self.shown.run_fed(&self.unseen.feeds())?;
        let loss = self.shown.fetched(0).to_f64_vec()[0];
        ensure!(loss.is_finite(), "the measured training diverged: its loss is {loss}");
        Ok(loss)
    }
}

/// Ids skewed as `u⁴`, as the measured peer draws them. Whether a sample is a click is drawn from a hidden model: a
/// weight for each id and for each feature.
fn clicks(index: u64, rows: usize, batch: usize) -> Vec<Tensor> {
    let random = Philox::new(SEED, "clicks").stream(index);
    let hidden = Philox::new(SEED, "hidden");
    let id = |i: u64| {
        let u = f64::from(random.uniform(i));
        ((u.powi(4) * rows as f64) as i64).min(rows as i64 - 1)
    };
    let ids: Vec<i64> = (0..(batch * SLOTS) as u64).map(id).collect();
    let mut dense = vec![0.0; batch * DENSE];
    random.fill_uniform(1 << 32, 0.0, 1.0, &mut dense);
    let weight = |i: u64| hidden.uniform(i) - 0.5;
    let of_features: Vec<f32> = (0..DENSE as u64).map(|i| 2.0 * weight((1 << 40) + i)).collect();
    let label = |at: usize| {
        let of_ids = ids[at * SLOTS..][..SLOTS].iter().map(|id| 1.5 * weight(*id as u64));
        let features = dense[at * DENSE..][..DENSE].iter();
        let logit =
            of_ids.chain(features.zip(&of_features).map(|(x, w)| (x - 0.5) * w)).sum::<f32>();
        let chance = 1.0 / (1.0 + (1.0 - logit).exp());
        f32::from(random.uniform((1 << 33) + at as u64) < chance)
    };
    let label: Vec<f32> = (0..batch).map(label).collect();
    let tensors = [
        Tensor::from_slice([batch, SLOTS], &ids),
        Tensor::from_slice([batch, DENSE], &dense),
        Tensor::from_slice([batch, 1], &label),
    ];
    tensors.map(|tensor| tensor.expect("the sizes fit")).into()
}

/// Noise on a pattern for each class.
fn images_and_labels(index: u64, batch: usize) -> Vec<Tensor> {
    let random = Philox::new(SEED, "images").stream(index);
    let pattern = Philox::new(SEED, "patterns");
    let labels: Vec<i64> = (0..batch as u64).map(|i| (random.u64(i) % 10) as i64).collect();
    let mut pixels = vec![0.0; batch * 784];
    random.fill_uniform(1 << 32, 0.0, 1.0, &mut pixels);
    for (image, label) in pixels.chunks_mut(784).zip(&labels) {
        let mut shown = [0.0; 784];
        pattern.fill_uniform(*label as u64 * 784, 0.0, 0.2, &mut shown);
        image.iter_mut().zip(shown).for_each(|(pixel, shown)| *pixel = 0.8 * *pixel + shown);
    }
    let tensors =
        [Tensor::from_slice([batch, 784], &pixels), Tensor::from_slice([batch, 1], &labels)];
    tensors.map(|tensor| tensor.expect("the sizes fit")).into()
}
