//! Steps share the worker threads of the process: a test binary of its own, for it counts them.

#![cfg(target_os = "linux")]

use bireme_engine::graph::Graph;
use bireme_engine::optimizer::{Optimizer, Sgd};
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Executor, Place, Scope, layers};

const WORKERS: usize = 8;

/// Workers of this process; other threads may be there, or about to end.
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("bireme-worker")).count()
}

#[test]
fn twenty_plans_have_the_workers_of_one() {
    let graph = Graph::new();
    let x = layers::data(&graph, "x", [3], DType::F32);
    let loss = layers::mean(&layers::linear(&x, 2).unwrap()).unwrap();
    Sgd::new(0.1).minimize(&loss).unwrap();
    let values: Vec<f32> = (0..48).map(|i| i as f32 / 7.0).collect();
    let x = Tensor::from_slice([16, 3], &values).unwrap();
    let executor = |hogwild: bool| {
        let executor = Executor::new(Place::Cpu).unwrap().threads(WORKERS).hogwild(hogwild);
        let mut executor = executor.with_scope(Scope::new());
        executor.run(&graph.startup(), &[], &[]).unwrap();
        executor
    };
    let losses = |executor: &Executor| -> Vec<f64> {
        let mut step = executor.prepare(&graph.main(), &["x"], &[loss.name()]).unwrap();
        let mut run = || {
            step.run(&[&x]).unwrap();
            step.fetched(0).to_f64_vec()[0]
        };
        (0..20).map(|_| run()).collect()
    };
    let alone = losses(&executor(false));
    let one = executor(false);
    let mut steps: Vec<_> =
        (0..20).map(|_| one.prepare(&graph.main(), &["x"], &[loss.name()]).unwrap()).collect();
    steps.iter_mut().for_each(|step| step.run(&[&x]).unwrap());
    // One that has just begun may not have its name yet.
    assert!(threads() < WORKERS, "{} threads", threads());
    // Side by side, on scopes of their own and on one that they share.
    let (shared, lanes) = (executor(true), 3);
    std::thread::scope(|scope| {
        for lane in 0..lanes {
            let (losses, executor, alone) = (&losses, &executor, &alone);
            let shared = shared.scope().clone();
            scope.spawn(move || {
                assert_eq!(losses(&executor(lane == 0)), *alone);
                losses(&executor(true).with_scope(shared))
            });
        }
    });
    assert!(threads() <= lanes * (WORKERS - 1));
}
