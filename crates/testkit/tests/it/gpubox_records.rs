//! GPUBox with entries and with Paddle's accessors, against sync training with servers on CPUs: whole
//! records, what is saved, and what ages.

use std::sync::{Arc, Mutex};

use bireme_engine::device::Device;
use bireme_engine::optimizer::{Adagrad, Adam, Optimizer, Sgd};
use bireme_engine::remote::TableRef;
use bireme_fleet::SaveMode;
use bireme_ir::{Attr, Op};
use bireme_ps::worker::Worker;
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn};

use super::gpubox::{Job, ROWS, card, in_passes, on_servers, reference};

/// A model whose table has an entry and an accessor, either of which may be empty.
pub(super) fn model(optimizer: &dyn Optimizer, entry: &str, accessor: &str) -> Model {
    with_records(ctr_dnn(Table::Keyed, optimizer).unwrap(), entry, accessor)
}

pub(super) fn with_records(mut model: Model, entry: &str, accessor: &str) -> Model {
    let of_table = |op: &&mut Op| op.kind.starts_with("lookup_table");
    for op in model.main.global_mut().ops.iter_mut().filter(of_table) {
        op.attrs.insert("entry".to_owned(), Attr::String(entry.to_owned()));
        op.attrs.insert("entry_config".to_owned(), Attr::String(accessor.to_owned()));
    }
    model
}

/// Settings of an accessor with these rules, whose rows have their long part after some shows.
pub(super) fn accessor(class: &str, embed: &str, embedx: &str) -> String {
    format!(
        r#"{{"accessor_class": "{class}", "embedx_threshold": 0.25,
            "ctr_accessor_param": {{"zero_init": false, "show_click_decay_rate": 0.5,
                "delete_threshold": 0.15, "delta_threshold": 0.3, "base_threshold": 0.1}},
            "embed_sgd_param": {{"name": "{embed}",
                "{family}": {{"learning_rate": 0.1, "initial_range": 0.1}}}},
            "embedx_sgd_param": {{"name": "{embedx}",
                "{familyx}": {{"learning_rate": 0.1, "initial_range": 0.1}}}}}}"#,
        family = family(embed),
        familyx = family(embedx),
    )
}

fn family(rule: &str) -> &str {
    match rule {
        "SparseNaiveSGDRule" => "naive",
        "SparseAdaGradSGDRule" | "StdAdaGradSGDRule" => "adagrad",
        _ => "adam",
    }
}

pub(super) const SHOW_CLICK: &str = "show_click_entry:label:label";

/// All kinds of tables: a name for messages, and the model.
pub(super) fn kinds() -> Vec<(String, Model)> {
    let (adagrad, sgd) = (Adagrad::new(0.1).initial_accumulator_value(0.1), Sgd::new(0.2));
    // Adam divides a gradient by its size: of one that is nearly nothing, rounding decides the sign.
    let adam = Adam::new(0.01).epsilon(1e-3);
    let naive = ["SparseNaiveSGDRule"; 2];
    let mut kinds = Vec::new();
    for entry in ["count_filter_entry:3", "probability_entry:0.5", SHOW_CLICK] {
        kinds.push((entry.to_owned(), model(&adagrad, entry, "")));
        kinds.push((format!("{entry} and Adam"), model(&adam, entry, "")));
    }
    let classes = ["CtrCommonAccessor", "CtrDoubleAccessor", "CtrDymfAccessor", "SparseAccessor"];
    for class in classes {
        for entry in ["", SHOW_CLICK] {
            let ctr = accessor(class, naive[0], "SparseAdaGradSGDRule");
            kinds.push((format!("{class} {entry}"), model(&sgd, entry, &ctr)));
        }
    }
    for [embed, embedx] in [["StdAdaGradSGDRule"; 2], naive] {
        let ctr = accessor("SparseAccessor", embed, embedx);
        kinds.push((embed.to_owned(), model(&sgd, "count_filter_entry:2", &ctr)));
    }
    // Adam again, whose epsilon has no place in these settings for one rule alone.
    for rule in ["SparseAdamSGDRule", "SparseSharedAdamSGDRule"] {
        let ctr = accessor("SparseAccessor", rule, rule);
        let ctr = ctr.replace(r#""initial_range""#, r#""ada_epsilon": 0.01, "initial_range""#);
        kinds.push((rule.to_owned(), model(&sgd, "probability_entry:0.7", &ctr)));
    }
    kinds
}

/// Numbers of a record as it is lent.
pub(super) fn lent_width(model: &Model) -> usize {
    let mut job = Job::start(model, None, None);
    let width = job.fleet.passes().unwrap().plan().tables[0].record_width();
    job.fleet.stop_worker().unwrap();
    width
}

pub(super) fn same_records(given: &[f32], expected: &[f32], width: usize, name: &str) {
    let first = given.iter().zip(expected).position(|(a, b)| {
        // Counters and marks are whole numbers, and exact.
        (a - b).abs() > 1e-5 || (b.fract() == 0.0 && *b != 0.0 && a != b && b.abs() >= 1.0)
    });
    let place = first.map(|at| {
        let record = |all: &[f32]| all[at / width * width..][..width].to_vec();
        (at / width, at % width, record(given), record(expected))
    });
    assert!(place.is_none(), "{name}: key, column, records: {place:?}");
}

fn equal_sync_training(device: Option<&Arc<dyn Device>>) {
    let batches = ctr_batches(9, 8);
    for (name, model) in kinds() {
        let width = lent_width(&model);
        let expected = on_servers(&model, &batches, width);
        let given = in_passes(&model, &batches, 3, width, device, None);
        same_records(&given.records, &expected.records, width, &name);
        given.close(&expected);
        assert_eq!(given, in_passes(&model, &batches, 3, width, device, None), "{name}: bits");
    }
}

#[test]
fn every_kind_of_record_equals_sync_training_on_cpus() {
    equal_sync_training(None);
}

#[test]
fn every_kind_of_record_is_trained_on_an_emulated_card() {
    let Some(card) = card() else { return };
    equal_sync_training(Some(&card));
}

/// What is done to the tables between passes of three steps.
pub(super) fn between(worker: &Worker, pass: usize, folder: &str) -> anyhow::Result<()> {
    let format = bireme_ps::message::Format::Native;
    match pass {
        1 => worker.save(&format!("{folder}/base"), None, SaveMode::Base.code(), format)?,
        2 => worker.save(&format!("{folder}/delta"), None, SaveMode::Delta.code(), format)?,
        3 => {
            worker.save(&format!("{folder}/aged"), None, SaveMode::FullAging.code(), format)?;
            worker.shrink(None)?;
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn records(worker: &Worker, width: usize) -> anyhow::Result<(u64, Vec<f32>)> {
    let keys: Vec<u64> = (0..ROWS).collect();
    let mut all = vec![0.0; keys.len() * width];
    let table: TableRef = reference(&worker.config().endpoints);
    worker.pull_records(&table, width, &keys, &mut all)?;
    let rows = worker.table_stats()?.iter().map(|table| table.rows as u64).sum();
    Ok((rows, all))
}

pub(super) fn close(a: &(u64, Vec<f32>), b: &(u64, Vec<f32>), what: &str) {
    assert_eq!(a.0, b.0, "{what}: rows");
    let apart = a.1.iter().zip(&b.1).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart <= 1e-5 && a.1.len() == b.1.len(), "{what}: {apart:e} apart");
}

#[test]
fn saves_deltas_and_days_are_those_of_sync_training() {
    let batches: Vec<Batch> = ctr_batches(12, 8);
    let ctr = accessor("CtrCommonAccessor", "SparseAdaGradSGDRule", "SparseAdaGradSGDRule");
    let model = model(&Sgd::new(0.2), SHOW_CLICK, &ctr);
    let width = lent_width(&model);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [on_cpu, in_box] =
        folders.each_ref().map(|folder| folder.path().to_str().unwrap().to_owned());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let folder = on_cpu.clone();
    let cluster = Cluster::new(1, 1).after_step(move |done| {
        if done.steps % 3 == 0 {
            between(done.worker, done.steps / 3, &folder)?;
            kept.lock().unwrap().push(records(done.worker, width)?);
        }
        Ok(())
    });
    cluster.train(&model, &batches).unwrap();
    let mut job = Job::start(&model, None, None);
    for (pass, batches) in batches.chunks(3).enumerate() {
        job.pass(&model, batches, None);
        job.fleet.passes().unwrap().end().unwrap();
        match pass + 1 {
            1 => save(&job, &in_box, "base", SaveMode::Base),
            2 => save(&job, &in_box, "delta", SaveMode::Delta),
            3 => {
                save(&job, &in_box, "aged", SaveMode::FullAging);
                job.fleet.shrink().unwrap();
            }
            _ => {}
        }
        job.fleet.flush().unwrap();
        let given = records(job.fleet.worker().unwrap(), width).unwrap();
        close(&given, &seen.lock().unwrap()[pass], &format!("after pass {}", pass + 1));
    }
    job.fleet.stop_worker().unwrap();
    same_saves(&model, &batches[..3], [&on_cpu, &in_box]);
}

/// What was saved in two folders is the same, and so is what is trained from it.
pub(super) fn same_saves(model: &Model, batches: &[Batch], folders: [&str; 2]) {
    let width = lent_width(model);
    let [(a, a_trained), (b, b_trained)] = folders.map(|folder| {
        let mut job = Job::start(model, None, None);
        let path = |name: &str| std::path::Path::new(folder).join(name);
        job.fleet.load_model(&path("base"), SaveMode::Full).unwrap();
        job.fleet.load_model(&path("delta"), SaveMode::Delta).unwrap();
        let left = records(job.fleet.worker().unwrap(), width).unwrap();
        job.pass(model, batches, None);
        job.fleet.flush().unwrap();
        let trained = records(job.fleet.worker().unwrap(), width).unwrap();
        job.fleet.stop_worker().unwrap();
        (left, trained)
    });
    close(&b, &a, "base and delta");
    close(&b_trained, &a_trained, "trained from them");
}

fn save(job: &Job, folder: &str, name: &str, mode: SaveMode) {
    let folder = std::path::Path::new(folder).join(name);
    job.fleet.save_persistables(&folder, job.executor.scope(), mode).unwrap();
}

#[test]
fn the_end_of_a_pass_leaves_nothing_with_the_trainer() {
    let ctr = accessor("CtrDymfAccessor", "SparseAdaGradSGDRule", "SparseAdaGradSGDRule");
    let model = model(&Sgd::new(0.2), "", &ctr);
    let (width, batches) = (lent_width(&model), ctr_batches(6, 8));
    let expected = on_servers(&model, &batches, width);
    let mut job = Job::start(&model, None, None);
    for batches in batches.chunks(3) {
        job.pass(&model, batches, None);
        job.fleet.passes().unwrap().end().unwrap();
        // All that the trainer holds is forgotten, as if it had been killed.
        job.fleet.passes().unwrap().refresh().unwrap();
    }
    job.left(&model, width).close(&expected);
}

#[test]
fn records_that_do_not_fit_leave_and_come_back() {
    let batches = ctr_batches(10, 8);
    let ctr = accessor("CtrCommonAccessor", "SparseAdaGradSGDRule", "SparseAdaGradSGDRule");
    for (entry, accessor) in [(SHOW_CLICK, ctr.as_str()), ("count_filter_entry:2", "")] {
        let model = model(&Adagrad::new(0.1), entry, accessor);
        let width = lent_width(&model);
        let roomy = in_passes(&model, &batches, 1, width, None, None);
        // Two passes have more keys than so few bytes hold.
        let narrow = in_passes(&model, &batches, 1, width, None, Some(30 * (width * 4 + 80)));
        assert_eq!(roomy, narrow, "where rows lie changes nothing");
    }
}
