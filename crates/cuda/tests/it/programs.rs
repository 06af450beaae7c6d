//! Whole programs on the card: what a user trains gives what the host gives, and the same bits every time.

use std::sync::Arc;

use bireme_engine::device::Device;
use bireme_engine::graph::Graph;
use bireme_engine::layers::{self, Act, Label};
use bireme_engine::optimizer::{Adagrad, Adam, Momentum, Optimizer, Sgd};
use bireme_engine::random::Philox;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Result};
use bireme_ir::DType;

use crate::card::{alone, device};

const ROWS: i64 = 300;
const SLOTS: usize = 5;

/// A click model: ids and dense features in, a sparse table, and whichever optimizer behind.
pub(crate) fn click_model(optimizer: &dyn Optimizer) -> (Graph, String) {
    let graph = Graph::new();
    graph.set_random_seed(5);
    let label = layers::data(&graph, "label", [1], DType::F32);
    let ids = layers::data(&graph, "ids", [SLOTS as i64], DType::I64);
    let dense = layers::data(&graph, "dense", [3], DType::F32);
    let rows = layers::Embedding::new([ROWS, 8]).sparse(true).apply(&ids).unwrap();
    let rows = layers::reshape(&rows, &[-1, 8 * SLOTS as i32]).unwrap();
    let joined = layers::concat(&[&rows, &dense], 1).unwrap();
    let hidden = layers::fc(&joined, 32, Act::Relu).unwrap();
    let hidden = layers::fc(&hidden, 16, Act::Relu).unwrap();
    let logit = layers::fc(&hidden, 1, Act::None).unwrap();
    let cost = layers::sigmoid_cross_entropy_with_logits(&logit, &label).unwrap();
    let loss = layers::mean(&cost).unwrap();
    optimizer.minimize(&loss).unwrap();
    (graph, loss.name().to_owned())
}

/// Labels follow from one id; ids are skewed, so that many repeat.
pub(crate) fn batch(step: u64, rows: usize) -> [Tensor; 3] {
    let random = Philox::new(3, "batch").stream(step);
    let id = |i: u64| (random.uniform(i).powi(3) * ROWS as f32) as i64;
    let ids: Vec<i64> = (0..(rows * SLOTS) as u64).map(id).collect();
    let dense: Vec<f32> = (0..rows as u64 * 3).map(|i| random.uniform(100_000 + i)).collect();
    let label: Vec<f32> = ids.chunks(SLOTS).map(|ids| (ids[0] % 2) as f32).collect();
    [
        Tensor::from_slice([rows, 1], &label).unwrap(),
        Tensor::from_slice([rows, SLOTS], &ids).unwrap(),
        Tensor::from_slice([rows, 3], &dense).unwrap(),
    ]
}

/// The sizes of some batches.
pub(crate) const BATCHES: [usize; 8] = [64, 64, 64, 64, 37, 37, 37, 64];

/// Losses, and the variables behind them.
pub(crate) fn train(
    executor: &mut Executor,
    model: &(Graph, String),
    batches: &[usize],
) -> (Vec<f64>, Vec<(String, Tensor)>) {
    let (graph, loss) = model;
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let names = ["label", "ids", "dense"];
    let mut step = executor.prepare(&graph.main(), &names, &[loss.as_str()]).unwrap();
    let mut losses = Vec::new();
    for (at, rows) in batches.iter().enumerate() {
        let [label, ids, dense] = batch(at as u64, *rows);
        step.run(&[&label, &ids, &dense]).unwrap();
        losses.push(step.fetched(0).to_f64_vec()[0]);
    }
    let scope = executor.scope();
    let values = scope.names().into_iter().map(|name| (name.clone(), scope.get(&name).unwrap()));
    (losses, values.collect())
}

fn assert_close(mine: &[(String, Tensor)], theirs: &[(String, Tensor)], within: f64, what: &str) {
    assert_eq!(mine.len(), theirs.len(), "{what}");
    for ((name, mine), (_, theirs)) in mine.iter().zip(theirs) {
        for (a, b) in mine.to_f64_vec().into_iter().zip(theirs.to_f64_vec()) {
            assert!((a - b).abs() <= within * b.abs().max(0.1), "{what}: `{name}`: {a} and {b}");
        }
    }
}

fn optimizers() -> Vec<(&'static str, Box<dyn Optimizer>)> {
    vec![
        ("sgd", Box::new(Sgd::new(0.1))),
        ("momentum", Box::new(Momentum::new(0.05, 0.9))),
        ("adagrad", Box::new(Adagrad::new(0.05))),
        ("adam", Box::new(Adam::new(0.01))),
        ("lazy adam", Box::new(Adam::new(0.01).lazy_mode(true))),
    ]
}

#[test]
fn a_click_model_trains_as_on_the_host() {
    let Some((_machine, device)) = device() else { return };
    for (name, optimizer) in optimizers() {
        let model = click_model(optimizer.as_ref());
        // Adagrad and Adam divide by what is nearly zero, and in time units switch on one of them and not on the other.
        for (steps, within) in [(0, 0.0), (1, 1e-3), (8, 1e-2)] {
            let batches = &BATCHES[..steps];
            let expected = train(&mut Executor::new(Place::Cpu).unwrap(), &model, batches);
            let got = train(&mut Executor::on(Arc::clone(&device)), &model, batches);
            for (a, b) in got.0.iter().zip(&expected.0) {
                assert!((a - b).abs() < 1e-3, "{name}: losses {:?} and {:?}", got.0, expected.0);
            }
            assert_close(&got.1, &expected.1, within, &format!("{name}, {steps} steps"));
        }
    }
}

#[test]
fn training_repeats_to_the_bit_whatever_the_order_of_blocks() {
    let Some(machine) = alone() else { return };
    let model = click_model(&Adagrad::new(0.05));
    let mut first = None;
    for seed in [0, 1, 2] {
        machine.control.seed(seed);
        let device = bireme_cuda::open(0).unwrap();
        let got = train(&mut Executor::on(device), &model, &BATCHES);
        let first = first.get_or_insert_with(|| got.clone());
        assert_eq!(got.0, first.0, "seed {seed}");
        assert!(got.1 == first.1, "seed {seed}: a variable differs");
    }
}

#[test]
fn kernels_of_a_recorded_step_start_early() {
    let Some(machine) = alone() else { return };
    let model = click_model(&Adagrad::new(0.05));
    let mut executor = Executor::on(bireme_cuda::open(0).unwrap());
    let before = machine.control.early_launches();
    train(&mut executor, &model, &BATCHES[..1]);
    assert_eq!(machine.control.early_launches(), before, "the first step is not recorded");
    train(&mut executor, &model, &BATCHES[..3]);
    let early = machine.control.early_launches() - before;
    assert!((5..50).contains(&early), "{early} kernels of one recording");
}

#[test]
fn images_are_classified_as_on_the_host() {
    let Some((_machine, device)) = device() else { return };
    let graph = Graph::new();
    graph.set_random_seed(1);
    let image = layers::data(&graph, "x", [1, 12, 12], DType::F32);
    let label = layers::data(&graph, "y", [1], DType::I64);
    let flat = layers::reshape(&image, &[-1, 144]).unwrap();
    let hidden = layers::fc(&flat, 20, Act::Tanh).unwrap();
    let logits = layers::fc(&hidden, 10, Act::None).unwrap();
    let (cost, _) = layers::softmax_with_cross_entropy(&logits, &label, Label::Hard).unwrap();
    let loss = layers::mean(&cost).unwrap();
    Adam::new(0.01).minimize(&loss).unwrap();
    let random = Philox::new(1, "images");
    let mut pixels = vec![0.0; 16 * 144];
    random.fill_uniform(0, 0.0, 1.0, &mut pixels);
    let labels: Vec<i64> = (0..16).map(|i| i % 10).collect();
    let x = Tensor::from_slice([16, 1, 12, 12], &pixels).unwrap();
    let y = Tensor::from_slice([16, 1], &labels).unwrap();
    let run = |mut executor: Executor| -> Result<Vec<f64>> {
        executor.run(&graph.startup(), &[], &[])?;
        let mut losses = Vec::new();
        for _ in 0..6 {
            let fetched = executor.run(&graph.main(), &[("x", &x), ("y", &y)], &[loss.name()])?;
            losses.push(fetched[0].to_f64_vec()[0]);
        }
        Ok(losses)
    };
    let expected = run(Executor::new(Place::Cpu).unwrap()).unwrap();
    let got = run(Executor::on(device)).unwrap();
    for (a, b) in got.iter().zip(&expected) {
        assert!((a - b).abs() < 1e-4, "{got:?} and {expected:?}");
    }
}

#[test]
fn a_wrong_id_names_itself() {
    let Some((_machine, device)) = device() else { return };
    let (graph, loss) = click_model(&Adagrad::new(0.05));
    let mut executor = Executor::on(device);
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let [label, _, dense] = batch(0, 4);
    let mut ids = vec![1i64; 4 * SLOTS];
    ids[7] = ROWS + 2;
    let ids = Tensor::from_slice([4, SLOTS], &ids).unwrap();
    let feeds = [("label", &label), ("ids", &ids), ("dense", &dense)];
    let error = executor.run(&graph.main(), &feeds, &[loss.as_str()]).unwrap_err().to_string();
    assert!(error.contains("302") && error.contains("0..300"), "{error}");
    assert!(error.contains("position 7"), "{error}");
}

#[test]
fn what_is_no_number_is_found_by_the_op() {
    let Some((_machine, device)) = device() else { return };
    let graph = Graph::new();
    let x = layers::data(&graph, "x", [2], DType::F32);
    let root = layers::sqrt(&x).unwrap();
    let y = layers::mean(&root).unwrap();
    let mut executor = Executor::on(device).check_finite(true);
    let x = Tensor::from_slice([2, 2], &[1.0f32, 4.0, -1.0, 9.0]).unwrap();
    let error = executor.run(&graph.main(), &[("x", &x)], &[y.name()]).unwrap_err().to_string();
    assert!(error.contains("`sqrt`"), "{error}");
}

#[test]
fn a_card_that_fails_at_any_allocation_leaves_the_variables() {
    let Some(machine) = alone() else { return };
    let machine = machine.quiet();
    let (graph, loss) = click_model(&Adagrad::new(0.05));
    let [label, ids, dense] = batch(0, 16);
    let feeds = [("label", &label), ("ids", &ids), ("dense", &dense)];
    for number in 1..12 {
        let device: Arc<dyn Device> = bireme_cuda::open(0).unwrap();
        let mut executor = Executor::on(device);
        executor.run(&graph.startup(), &[], &[]).unwrap();
        let before = executor.scope().get("fc_0.w_0").unwrap();
        machine.control.fail_allocation(number);
        let outcome = executor.run(&graph.main(), &feeds, &[loss.as_str()]);
        machine.control.fail_allocation(0);
        if let Err(error) = outcome {
            assert!(error.to_string().contains("out of memory"), "{error}");
            assert_eq!(executor.scope().get("fc_0.w_0").unwrap(), before, "allocation {number}");
        }
        executor.run(&graph.main(), &feeds, &[loss.as_str()]).unwrap();
    }
}
