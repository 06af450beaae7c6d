//! A network that fails under a cluster: what is lost is sent again, and nothing is applied twice.

use std::sync::Arc;
use std::time::Duration;

use bireme_comm::{Faults, Memory};
use bireme_engine::optimizer::Adam;
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Table, ctr_batches, ctr_dnn};
use bireme_transpiler::Mode;

const STEPS: usize = 12;
const BATCH: usize = 12;

fn on(network: &Memory) -> Cluster {
    Cluster { transport: Arc::new(network.clone()), ..Cluster::new(2, 2) }
}

/// After every step of a trainer, all connections of one server are cut; the other trainer is
/// somewhere within its step then.
fn cut_often(cluster: Cluster, network: &Memory) -> Cluster {
    let network = network.clone();
    cluster.after_step(move |done| {
        let endpoints = &done.worker.config().endpoints;
        network.cut(&endpoints[(done.trainer + done.steps) % endpoints.len()]);
        Ok(())
    })
}

#[test]
fn cut_connections_change_nothing() {
    let batches = ctr_batches(STEPS, BATCH);
    for table in [Table::Sliced, Table::Keyed] {
        let model = ctr_dnn(table, &Adam::new(0.003).lazy_mode(true)).unwrap();
        let expected = on(&Memory::new(0)).train(&model, &batches).unwrap();
        let network = Memory::new(0);
        let cluster = cut_often(on(&network), &network);
        let outcome = cluster.train(&model, &batches).unwrap();
        assert!(outcome.params == expected.params, "{table:?}");
        assert_eq!(outcome.losses, expected.losses, "{table:?}");
    }
}

/// With one trainer half-async is repeatable, so an update applied twice or not at all would show.
#[test]
fn cut_connections_end_no_mode() {
    let batches = ctr_batches(STEPS, BATCH);
    let model = ctr_dnn(Table::Sliced, &Adam::new(0.003).lazy_mode(true)).unwrap();
    for mode in [Mode::Async, Mode::HalfAsync, Mode::Geo, Mode::Hybrid] {
        for trainers in [1, 2] {
            let run = |network: &Memory, cuts: bool| {
                let mut cluster = Cluster { trainers, ..on(network) }.in_mode(mode);
                cluster.config.geo_sgd_need_push_nums = 2;
                let cluster = if cuts { cut_often(cluster, network) } else { cluster };
                cluster.train(&model, &batches).unwrap().params
            };
            let params = run(&Memory::new(0), true);
            if trainers == 1 && mode == Mode::HalfAsync {
                assert!(params == run(&Memory::new(0), false), "{mode:?}");
            }
        }
    }
}

#[test]
fn a_bad_network_changes_nothing() {
    let batches = ctr_batches(STEPS, BATCH);
    for table in [Table::Sliced, Table::Keyed] {
        let model = ctr_dnn(table, &Adam::new(0.003).lazy_mode(true)).unwrap();
        let expected = on(&Memory::new(0)).train(&model, &batches).unwrap().params;
        for seed in 1..4 {
            let faults = Faults {
                drop: 0.01,
                delay: 0.05,
                max_delay: Duration::from_millis(5),
                duplicate: 0.02,
                cut: 0.02,
            };
            let mut cluster = on(&Memory::new(seed).faults(faults));
            cluster.settings.retries = 100;
            // What was dropped is missed at these intervals.
            cluster.settings.heartbeat = Duration::from_millis(20);
            cluster.settings.handshake = Duration::from_millis(300);
            let params = cluster.train(&model, &batches).unwrap().params;
            assert!(params == expected, "{table:?}, seed {seed}");
        }
    }
}
