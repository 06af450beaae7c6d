//! Checkpoints of running clusters: what is saved while training goes on is continued by any number
//! of servers as if nothing had happened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use bireme_engine::lr::{Lr, Schedule};
use bireme_engine::optimizer::{Adam, Momentum, Optimizer};
use bireme_ps::checkpoint::{SaveMode, gather_dense, read_manifest, verify};
use bireme_ps::message::Format;
use bireme_testkit::Params;
use bireme_testkit::cluster::{Cluster, Done};
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn};
use bireme_transpiler::Mode;

const STEPS: usize = 20;
/// The step after which it is saved.
const SAVED: usize = 8;
/// The step after which everything is lost.
const LOST: usize = 11;
const BATCH: usize = 12;

fn save(done: &Done<'_>, folder: &Path, mode: SaveMode) -> Result<()> {
    let folder = folder.to_string_lossy();
    Ok(done.worker.save(&folder, None, mode.code(), Format::Native)?)
}

/// Adam with a rate that falls with the steps: moments, powers and the step itself are state.
fn adam() -> Adam {
    let falling =
        Schedule::Exponential { rate: 0.01, decay_steps: 4.0, decay_rate: 0.8, staircase: false };
    Adam::new(Lr::Schedule(falling)).lazy_mode(true)
}

/// Trains until [`LOST`], with saves on the way, and goes on from the last one.
fn interrupted(
    model: &Model,
    batches: &[Batch],
    folder: &Path,
    saves: &[(usize, SaveMode)],
    servers: usize,
) -> Params {
    let saves: BTreeMap<usize, SaveMode> = saves.iter().copied().collect();
    let last = *saves.keys().last().unwrap();
    let to = folder.to_owned();
    let first = Cluster::new(2, 2).after_step(move |done| match saves.get(&done.steps) {
        Some(mode) if done.trainer == 0 => save(done, &to, *mode),
        _ => Ok(()),
    });
    first.train(model, &batches[..LOST]).unwrap();
    let checkpoint = Some(folder.to_owned());
    let second = Cluster { checkpoint, ..Cluster::new(2, servers) };
    second.train(model, &batches[last..]).unwrap().params
}

#[test]
fn a_restart_with_other_servers_continues_to_the_bit() {
    let batches = ctr_batches(STEPS, BATCH);
    let optimizers: [Box<dyn Optimizer>; 2] =
        [Box::new(adam()), Box::new(Momentum::new(0.05, 0.9))];
    for (table, optimizer) in [
        (Table::Sliced, &optimizers[0]),
        (Table::Keyed, &optimizers[0]),
        (Table::Sliced, &optimizers[1]),
    ] {
        let model = ctr_dnn(table, optimizer.as_ref()).unwrap();
        let expected = Cluster::new(2, 2).train(&model, &batches).unwrap().params;
        for servers in [1, 2, 5] {
            let folder = tempfile::tempdir().unwrap();
            let saves = [(SAVED, SaveMode::Full)];
            let params = interrupted(&model, &batches, folder.path(), &saves, servers);
            assert!(params == expected, "{table:?}, {servers} servers");
        }
    }
}

#[test]
fn deltas_continue_to_the_bit() {
    let batches = ctr_batches(STEPS, BATCH);
    for table in [Table::Sliced, Table::Keyed] {
        let model = ctr_dnn(table, &adam()).unwrap();
        let expected = Cluster::new(2, 2).train(&model, &batches).unwrap().params;
        let folder = tempfile::tempdir().unwrap();
        let saves = [(3, SaveMode::Full), (6, SaveMode::Delta), (SAVED, SaveMode::Delta)];
        let params = interrupted(&model, &batches, folder.path(), &saves, 3);
        assert!(params == expected, "{table:?}");
        let manifest = read_manifest(folder.path()).unwrap();
        let rows = manifest.saves.iter().map(|save| save.tables.iter().map(|t| t.rows).sum());
        let rows: Vec<u64> = rows.collect();
        match table {
            // Dense variables are saved whole, so the newest save is enough.
            Table::Sliced => assert_eq!(rows, [0]),
            Table::Keyed => assert!(rows.len() == 3 && rows[1] < 200 && rows[2] < 200, "{rows:?}"),
        }
    }
}

/// In modes without barriers others push while the servers write.
#[test]
fn saves_under_way_are_whole_in_every_mode() {
    let batches = ctr_batches(STEPS, BATCH);
    let model = ctr_dnn(Table::Sliced, &Adam::new(0.003).lazy_mode(true)).unwrap();
    for mode in [Mode::Async, Mode::HalfAsync, Mode::Geo, Mode::Hybrid] {
        let folder = tempfile::tempdir().unwrap();
        let to: PathBuf = folder.path().to_owned();
        let mut cluster = Cluster::new(2, 2).in_mode(mode).after_step(move |done| {
            match done.trainer == 0 && done.steps % 3 == 0 {
                true => save(done, &to, SaveMode::Full),
                false => Ok(()),
            }
        });
        cluster.config.geo_sgd_need_push_nums = 2;
        cluster.train(&model, &batches).unwrap();
        let manifest = read_manifest(folder.path()).unwrap();
        let checked = verify(folder.path(), &manifest);
        assert!(!checked.is_empty() && checked.iter().all(|(_, fine)| fine.is_ok()), "{mode:?}");
        let dense = gather_dense(folder.path()).unwrap();
        let whole = model.params.iter().all(|name| dense.contains_key(name));
        assert!(whole, "{mode:?}: {:?}", dense.keys());
        let checkpoint = Some(folder.path().to_owned());
        let mut second = Cluster { checkpoint, ..Cluster::new(2, 3) }.in_mode(mode);
        second.config.geo_sgd_need_push_nums = 2;
        second.train(&model, &batches[..2]).unwrap();
    }
}
