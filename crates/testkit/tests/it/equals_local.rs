//! Distributed equals local: sync training with any number of trainers and servers gives the
//! parameters of one process on the same total batch.

use std::collections::HashMap;

use bireme_engine::lr::{Lr, Schedule};
use bireme_engine::optimizer::{Adagrad, Adam, Momentum, Optimizer, Sgd};
use bireme_ir::Regularizer;
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn, mnist_batches, mnist_mlp};
use bireme_testkit::{Params, difference, local};
use bireme_transpiler::SplitMethod;

use crate::optimizers::optimizers;

const STEPS: usize = 50;
/// Divides evenly by one, two and three.
const BATCH: usize = 12;

const TOLERANCE: f32 = 1e-6;

fn close(kind: &str, local: &Params, distributed: &Params) {
    let difference = difference(local, distributed);
    assert!(difference <= TOLERANCE, "{kind}: {difference:e}");
}

/// Trains a model on every topology, with slices and without; all must equal the local run, and all
/// with the same number of trainers each other to the bit. The first is run twice.
fn equals_local(kind: &str, model: &Model, batches: &[Batch], topologies: &[(usize, usize)]) {
    let (expected, _) = local::train(model, batches).unwrap();
    let mut first: HashMap<usize, Params> = HashMap::new();
    let sliced = topologies.iter().map(|topology| (topology, true));
    let whole = topologies.iter().map(|topology| (topology, false));
    let again = (&topologies[0], true);
    for ((trainers, servers), slice) in sliced.chain(whole).chain([again]) {
        let mut cluster = Cluster::new(*trainers, *servers);
        cluster.config.slice_var_up = slice;
        let params = cluster.train(model, batches).unwrap().params;
        let what = format!("{kind}, {trainers} trainers, {servers} servers, slices: {slice}");
        close(&what, &expected, &params);
        let first = first.entry(*trainers).or_insert_with(|| params.clone());
        assert!(*first == params, "{what}: not to the bit");
    }
}

fn click_model_on(topologies: &[(usize, usize)], optimizers: &[(&str, Box<dyn Optimizer>)]) {
    let batches = ctr_batches(STEPS, BATCH);
    for (kind, optimizer) in optimizers {
        let model = ctr_dnn(Table::Sliced, optimizer.as_ref()).unwrap();
        equals_local(kind, &model, &batches, topologies);
    }
}

fn digit_model_on(topologies: &[(usize, usize)]) {
    let batches = mnist_batches(STEPS, BATCH);
    for (kind, optimizer) in optimizers() {
        let model = mnist_mlp(optimizer.as_ref()).unwrap();
        equals_local(kind, &model, &batches, topologies);
    }
}

const ALL: [(usize, usize); 9] =
    [(1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (2, 5), (3, 1), (3, 2), (3, 5)];

#[test]
fn the_click_model_on_all_topologies() {
    click_model_on(&ALL, &optimizers()[..1]);
}

#[test]
fn half_of_the_optimizers_on_the_click_model() {
    click_model_on(&[(2, 1), (3, 5)], &optimizers()[1..7]);
}

#[test]
fn the_other_optimizers_on_the_click_model() {
    click_model_on(&[(2, 5), (3, 2)], &optimizers()[7..]);
}

#[test]
fn every_optimizer_on_the_digit_model() {
    digit_model_on(&[(2, 2), (3, 5)]);
}

/// Minutes; the tests above are chosen from it.
#[test]
#[ignore = "takes minutes: cargo test -p bireme-testkit -- --ignored every_optimizer_on_all"]
fn every_optimizer_on_all_topologies() {
    click_model_on(&ALL, &optimizers());
    digit_model_on(&ALL);
}

#[test]
fn keyed_tables_equal_a_local_table() {
    let batches = ctr_batches(STEPS, BATCH);
    let lazy: Vec<(&str, Box<dyn Optimizer>)> = vec![
        ("sgd", Box::new(Sgd::new(0.1))),
        ("lazy adam", Box::new(Adam::new(0.003).lazy_mode(true).epsilon(1e-2))),
        ("adagrad", Box::new(Adagrad::new(0.02).epsilon(1e-2))),
    ];
    for (kind, optimizer) in lazy {
        let model = ctr_dnn(Table::Keyed, optimizer.as_ref()).unwrap();
        let (expected, _) = local::train(&model, &batches).unwrap();
        for (trainers, servers) in [(1, 1), (2, 2), (3, 5)] {
            let cluster = Cluster::new(trainers, servers);
            let params = cluster.train(&model, &batches).unwrap().params;
            close(&format!("{kind}, {trainers} x {servers}"), &expected, &params);
        }
    }
}

/// Learning rates and penalties are the servers' business; all of a table's pieces see the same step.
#[test]
fn schedules_penalties_and_hashed_placements_equal_local() {
    let batches = ctr_batches(STEPS, BATCH);
    let falling =
        Schedule::Exponential { rate: 0.1, decay_steps: 10.0, decay_rate: 0.7, staircase: true };
    let rising = Schedule::Noam { d_model: 16.0, warmup_steps: 20.0, rate: 1.0 };
    let optimizers: [Box<dyn Optimizer>; 3] = [
        Box::new(Sgd::new(Lr::Schedule(falling))),
        Box::new(Sgd::new(Lr::Schedule(rising))),
        Box::new(Momentum::new(0.01, 0.9).regularization(Regularizer::L2(0.01))),
    ];
    for (kind, optimizer) in optimizers.iter().enumerate() {
        for table in [Table::Sliced, Table::Keyed] {
            // Momentum and penalty of a keyed table touch the rows of a step, not all.
            if kind == 2 && table == Table::Keyed {
                continue;
            }
            let model = ctr_dnn(table, optimizer.as_ref()).unwrap();
            let (expected, _) = local::train(&model, &batches).unwrap();
            let mut cluster = Cluster::new(2, 3);
            cluster.config.split_method = SplitMethod::HashName;
            let params = cluster.train(&model, &batches).unwrap().params;
            close(&format!("optimizer {kind}, {table:?}"), &expected, &params);
        }
    }
}

#[test]
fn more_servers_than_parameters_and_many_trainers() {
    let batches = mnist_batches(3, 20);
    let model = mnist_mlp(&Sgd::new(0.1)).unwrap();
    let (expected, _) = local::train(&model, &batches).unwrap();
    let params = Cluster::new(20, 20).train(&model, &batches).unwrap().params;
    close("20 x 20", &expected, &params);
}
