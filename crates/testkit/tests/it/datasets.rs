//! Trainers over datasets, which pull the rows of the next batch beside a step, against the same steps one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bireme_data::{Batches, MemoryDataset, MemorySettings, Training, train};
use bireme_engine::optimizer::{Adam, Optimizer, Sgd};
use bireme_engine::remote::Remote;
use bireme_engine::{Executor, Place, Scope};
use bireme_ps::worker::{Worker, WorkerConfig};
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Model, Table, ctr_dnn};
use bireme_transpiler::Mode;

use crate::datasets_on_cards::{Clicks, slots};

/// The batches of one trainer.
fn memory(trainer: usize) -> Box<dyn Batches> {
    let clicks = Clicks(vec![40 + 200 * trainer as u64, 320]);
    let settings = MemorySettings::new(Arc::new(clicks), slots());
    let settings = MemorySettings { batch_size: 16, ..settings };
    let mut dataset = MemoryDataset::new(settings).unwrap();
    dataset.load().unwrap();
    dataset.local_shuffle(3);
    let mut batches = dataset.open(1).unwrap().swap_remove(0);
    // All have as many.
    batches.skip(if trainer == 0 { 2 } else { 14 }).unwrap();
    batches
}

/// Trains as one trainer: over its dataset, or step by step.
fn run_trainer(cluster: &Cluster, model: &Model, trainer: usize, over_dataset: bool) {
    let transpiled = cluster.transpile(model, trainer).unwrap();
    let program = transpiled.trainer_program();
    let config = WorkerConfig::from_program(program).unwrap().unwrap();
    let transport = Arc::clone(&cluster.transport);
    let worker = Worker::connect(config, transport, cluster.settings.clone()).unwrap();
    let remote = Arc::clone(&worker) as Arc<dyn Remote>;
    let mut executor = Executor::new(Place::Cpu).unwrap().remote(Arc::clone(&remote));
    executor.run(transpiled.trainer_startup(), &[], &[]).unwrap();
    let (scope, slots) = (executor.scope().clone(), slots());
    let mut batches = memory(trainer);
    if over_dataset {
        let training = Training { remote: Some(remote), ..Training::new(program, &scope, &slots) };
        let trained = train(&training, vec![batches]).unwrap();
        assert_eq!(trained.batches, 21);
    } else {
        let names: Vec<&str> = slots.iter().map(|slot| slot.name.as_str()).collect();
        let mut step = executor.prepare(program, &names, &[]).unwrap();
        let mut batch = bireme_data::Batch::of(&slots);
        while batches.next(&mut batch).unwrap() {
            step.run(&batch.tensors()).unwrap();
        }
    }
    let times = worker.times();
    assert!(!times.pull.is_zero() && !times.push.is_zero());
    worker.complete().unwrap();
}

/// What the servers hold after a training.
fn trained(model: &Model, mode: Mode, shape: (usize, usize), over_dataset: bool) -> Vec<Vec<f32>> {
    let (trainers, servers) = shape;
    let cluster = Cluster::new(trainers, servers).in_mode(mode);
    let scopes: Vec<Scope> = (0..servers).map(|_| Scope::new()).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|threads| {
        for (index, scope) in scopes.iter().enumerate() {
            let server = cluster.start_server(model, index, scope).unwrap();
            let stop = &stop;
            threads.spawn(move || server.run(&|| stop.load(Ordering::Relaxed)).unwrap());
        }
        for trainer in 0..trainers {
            let cluster = &cluster;
            threads.spawn(move || run_trainer(cluster, model, trainer, over_dataset));
        }
    });
    let transpiled = cluster.transpile(model, 0).unwrap();
    let mut values = Vec::new();
    for located in transpiled.located() {
        for piece in located.pieces {
            let value = scopes[piece.server].get(&piece.name).unwrap();
            values.push(value.as_slice::<f32>().unwrap().to_vec());
        }
    }
    values
}

/// Bits, in the modes in which they do not depend on who comes first.
#[test]
fn rows_pulled_beside_a_step_are_those_that_it_would_pull() {
    let optimizers: [Box<dyn Optimizer>; 2] =
        [Box::new(Sgd::new(0.1)), Box::new(Adam::new(0.003).lazy_mode(true))];
    for optimizer in optimizers {
        let model = ctr_dnn(Table::Sliced, optimizer.as_ref()).unwrap();
        for (mode, shape) in [
            (Mode::Sync, (2, 1)),
            (Mode::Sync, (2, 3)),
            (Mode::Async, (1, 2)),
            (Mode::HalfAsync, (1, 1)),
        ] {
            let expected = trained(&model, mode, shape, false);
            assert!(trained(&model, mode, shape, true) == expected, "{mode:?} {shape:?}");
        }
    }
}

#[test]
fn several_trainers_that_do_not_wait_finish_over_datasets() {
    let model = ctr_dnn(Table::Sliced, &Sgd::new(0.05)).unwrap();
    for mode in [Mode::Async, Mode::HalfAsync, Mode::Hybrid] {
        let values = trained(&model, mode, (2, 2), true);
        assert!(values.iter().flatten().all(|value| value.is_finite()), "{mode:?}");
    }
}
