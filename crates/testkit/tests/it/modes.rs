//! The modes that are not sync: they learn as well as one process, and end whatever the data.

use bireme_engine::optimizer::{Adam, Sgd};
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn, mnist_batches, mnist_mlp};
use bireme_testkit::{difference, local};
use bireme_transpiler::Mode;

const MODES: [Mode; 5] = [Mode::Sync, Mode::Async, Mode::HalfAsync, Mode::Geo, Mode::Hybrid];

/// Steps of a run that learns something.
const STEPS: usize = 120;
const BATCH: usize = 32;

fn in_mode(mode: Mode, trainers: usize, servers: usize) -> Cluster {
    let mut cluster = Cluster::new(trainers, servers).in_mode(mode);
    cluster.config.geo_sgd_need_push_nums = 5;
    cluster
}

/// Trains on a cluster and in this process; the loss before, and after either, on other data.
fn losses(cluster: &Cluster, model: &Model, data: fn(usize, usize) -> Vec<Batch>) -> [f64; 3] {
    let batches = data(STEPS, BATCH);
    // A batch of another size is of other data.
    let held_out = &data(1, 1000)[0];
    let first = local::train(model, &[]).unwrap().0;
    let alone = local::train(model, &batches).unwrap().0;
    let together = cluster.train(model, &batches).unwrap().params;
    [&first, &alone, &together].map(|params| local::evaluate(model, params, held_out).unwrap())
}

fn check_learns(what: &str, [first, alone, together]: [f64; 3]) {
    assert!(alone < first - 0.05, "{what}: {first} -> {alone} teaches nothing");
    // On a busy machine one trainer may run far ahead, which costs geo most. How good a model is in
    // the end is for a larger run to show, that of the demo.
    let most = alone + (first - alone) / 3.0;
    assert!(together < most, "{what}: {first} -> {together}, one process {alone}");
}

#[test]
fn every_mode_learns_as_one_process() {
    let adam = Adam::new(0.003).lazy_mode(true);
    for table in [Table::Sliced, Table::Keyed] {
        let model = ctr_dnn(table, &adam).unwrap();
        for mode in &MODES[1..] {
            if (table, *mode) != (Table::Keyed, Mode::Geo) {
                let losses = losses(&in_mode(*mode, 2, 2), &model, ctr_batches);
                check_learns(&format!("{mode:?}, {table:?}"), losses);
            }
        }
    }
}

#[test]
fn delays_are_made_up_for() {
    let model = mnist_mlp(&Sgd::new(0.1)).unwrap();
    for lambda in [0.1, 1.0] {
        let mut cluster = in_mode(Mode::Async, 2, 2);
        cluster.config.enable_dc_asgd = true;
        cluster.config.dc_asgd_lambda = lambda;
        check_learns(&format!("λ = {lambda}"), losses(&cluster, &model, mnist_batches));
    }
}

#[test]
fn uneven_data_ends_in_every_mode() {
    let batches = ctr_batches(7, 6);
    for table in [Table::Sliced, Table::Keyed] {
        let model = ctr_dnn(table, &Adam::new(0.003).lazy_mode(true)).unwrap();
        for mode in MODES {
            if (table, mode) == (Table::Keyed, Mode::Geo) {
                continue;
            }
            let shares: Vec<Vec<Batch>> = [7, 2, 0].map(|count| batches[..count].to_vec()).into();
            let outcome = in_mode(mode, 3, 2).train_shares(&model, shares).unwrap();
            let steps: Vec<usize> = outcome.losses.iter().map(Vec::len).collect();
            assert_eq!(steps, [7, 2, 0], "{mode:?}, {table:?}");
            let finite = outcome.params.values().flatten().all(|value| value.is_finite());
            assert!(finite, "{mode:?}, {table:?}");
        }
    }
}

#[test]
fn twenty_servers_and_fifty_trainers() {
    let batches = mnist_batches(2, 50);
    let model = mnist_mlp(&Sgd::new(0.1)).unwrap();
    let (expected, _) = local::train(&model, &batches).unwrap();
    let params = in_mode(Mode::Sync, 50, 20).train(&model, &batches).unwrap().params;
    let far = difference(&expected, &params);
    assert!(far <= 1e-6, "{far}");
}
