//! Training from outside: it learns, it repeats itself to the bit, and it does not matter how a
//! batch is split.

use bireme_engine::graph::Graph;
use bireme_engine::layers::{self, Act};
use bireme_engine::optimizer::{Adam, Optimizer, Sgd};
use bireme_engine::random::Philox;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Scope};
use bireme_ir::DType;

const ROWS: i64 = 200;
const SLOTS: usize = 4;
const BATCH: usize = 32;

/// A click model and its loss: ids and dense features in, sparse Adam behind.
fn click_model() -> (Graph, String) {
    let graph = Graph::new();
    let label = layers::data(&graph, "label", [1], DType::I64);
    let ids = layers::data(&graph, "ids", [SLOTS as i64], DType::I64);
    let dense = layers::data(&graph, "dense", [3], DType::F32);
    let rows = layers::Embedding::new([ROWS, 5]).sparse(true).apply(&ids).unwrap();
    let rows = layers::reshape(&rows, &[-1, 5 * SLOTS as i32]).unwrap();
    let joined = layers::concat(&[&rows, &dense], 1).unwrap();
    let hidden = layers::fc(&joined, 16, Act::Relu).unwrap();
    let hidden = layers::fc(&hidden, 8, Act::Relu).unwrap();
    let logits = layers::fc(&hidden, 2, Act::None).unwrap();
    let (cost, _) =
        layers::softmax_with_cross_entropy(&logits, &label, layers::Label::Hard).unwrap();
    let loss = layers::mean(&cost).unwrap();
    Adam::new(0.01).lazy_mode(true).minimize(&loss).unwrap();
    (graph, loss.name().to_owned())
}

/// Labels follow from one id, so that there is something to learn.
fn batch(step: u64) -> [Tensor; 3] {
    let random = Philox::new(3, "batch").stream(step);
    let ids: Vec<i64> =
        (0..(BATCH * SLOTS) as u64).map(|i| (random.u64(i) % ROWS as u64) as i64).collect();
    let dense: Vec<f32> = (0..BATCH as u64 * 3).map(|i| random.uniform(1000 + i)).collect();
    let label: Vec<i64> = ids.chunks(SLOTS).map(|ids| ids[0] % 2).collect();
    [
        Tensor::from_slice([BATCH, 1], &label).unwrap(),
        Tensor::from_slice([BATCH, SLOTS], &ids).unwrap(),
        Tensor::from_slice([BATCH, 3], &dense).unwrap(),
    ]
}

/// Parameters and loss after `steps` steps.
fn train(threads: usize, steps: u64) -> (Scope, f64) {
    let (graph, loss) = click_model();
    let mut executor = Executor::new(Place::Cpu).unwrap().threads(threads);
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let mut step =
        executor.prepare(&graph.main(), &["label", "ids", "dense"], &[loss.as_str()]).unwrap();
    for at in 0..steps {
        let [label, ids, dense] = batch(at);
        step.run(&[&label, &ids, &dense]).unwrap();
    }
    (executor.scope().clone(), step.fetched(0).to_f64_vec()[0])
}

#[test]
fn training_repeats_to_the_bit() {
    for threads in [1, 2, 3] {
        let ((one, _), (two, _)) = (train(threads, 30), train(threads, 30));
        assert_eq!(one.names(), two.names());
        for name in one.names() {
            assert!(one.get(&name).unwrap() == two.get(&name).unwrap(), "{threads}: `{name}`");
        }
    }
}

#[test]
fn the_split_changes_only_the_last_digits() {
    let (one, _) = train(1, 30);
    for threads in [2, 3, 7] {
        let (other, _) = train(threads, 30);
        for name in one.names() {
            let pairs = one.get(&name).unwrap().to_f64_vec().into_iter();
            for (a, b) in pairs.zip(other.get(&name).unwrap().to_f64_vec()) {
                assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{threads}: `{name}`: {a}, {b}");
            }
        }
    }
}

#[test]
fn a_model_learns() {
    let (_, loss) = train(2, 400);
    assert!(loss < 0.1, "loss {loss} after 400 steps");
}

#[test]
fn threads_share_parameters() {
    let (graph, loss) = click_model();
    let mut executor = Executor::new(Place::Cpu).unwrap();
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let (scope, main) = (executor.scope().clone(), graph.main());
    let last: Vec<f64> = std::thread::scope(|threads| {
        let handles: Vec<_> = (0..2u64)
            .map(|thread| {
                let (scope, main, loss) = (scope.clone(), &main, loss.as_str());
                threads.spawn(move || {
                    let executor =
                        Executor::new(Place::Cpu).unwrap().with_scope(scope).hogwild(true);
                    let mut step =
                        executor.prepare(main, &["label", "ids", "dense"], &[loss]).unwrap();
                    for at in 0..300 {
                        let [label, ids, dense] = batch(2 * at + thread);
                        step.run(&[&label, &ids, &dense]).unwrap();
                    }
                    step.fetched(0).to_f64_vec()[0]
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    assert!(last.iter().all(|loss| *loss < 0.3), "losses {last:?}");
}

#[test]
fn a_line_is_fitted() {
    let graph = Graph::new();
    let x = layers::data(&graph, "x", [2], DType::F32);
    let y = layers::data(&graph, "y", [1], DType::F32);
    let predicted = layers::fc(&x, 1, Act::None).unwrap();
    let loss = layers::mean(&layers::square_error_cost(&predicted, &y).unwrap()).unwrap();
    Sgd::new(0.1).minimize(&loss).unwrap();
    let mut executor = Executor::new(Place::Cpu).unwrap();
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let random = Philox::new(1, "line");
    let points: Vec<f32> = (0..200).map(|i| random.uniform(i)).collect();
    let values: Vec<f32> = points.chunks(2).map(|p| 3.0 * p[0] - 2.0 * p[1] + 0.5).collect();
    let x = Tensor::from_slice([100, 2], &points).unwrap();
    let y = Tensor::from_slice([100, 1], &values).unwrap();
    for _ in 0..2000 {
        executor.run(&graph.main(), &[("x", &x), ("y", &y)], &[]).unwrap();
    }
    let weights = executor.scope().get("fc_0.w_0").unwrap().to_f64_vec();
    assert!((weights[0] - 3.0).abs() < 1e-2 && (weights[1] + 2.0).abs() < 1e-2, "{weights:?}");
}
