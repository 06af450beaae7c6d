//! Entries and Paddle's accessors with several ranks, each with a part of the records, against sync training
//! with as many trainers on CPUs: whole records, what is saved, and what ages.

use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};

use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, Embedding, Fc, Label, ParamAttr};
use bireme_engine::optimizer::{Adagrad, Adam, Optimizer, Sgd};
use bireme_fleet::SaveMode;
use bireme_fleet::collective::Road;
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Batch, Model, ctr_batches};

use super::{BATCH, Job, SERVERS, cards, on_servers};
use crate::gpubox_records::{
    SHOW_CLICK, accessor, between, close, kinds, lent_width, model, records, same_records,
    same_saves, with_records,
};

#[test]
fn every_kind_of_record_of_ranks_equals_sync_training() {
    let batches = ctr_batches(7, BATCH);
    for (name, model) in kinds() {
        let width = lent_width(&model);
        for size in [1, 2, 4] {
            let expected = on_servers(&model, &batches, size, width);
            let left = Job::new(size, width).train(&model, &batches);
            let what = format!("{size} ranks, {name}");
            same_records(&left.records, &expected.records, width, &what);
            left.close(&expected, &what);
        }
    }
}

#[test]
fn every_way_of_counting_is_that_of_ranks_on_emulated_cards() {
    let Some(cards) = cards(4) else { return };
    let batches = ctr_batches(4, BATCH);
    let (adagrad, sgd) = (Adagrad::new(0.1).initial_accumulator_value(0.1), Sgd::new(0.2));
    let ctr = accessor("CtrDymfAccessor", "SparseNaiveSGDRule", "SparseAdaGradSGDRule");
    for (at, (entry, accessor)) in [
        ("count_filter_entry:2", ""),
        ("probability_entry:0.5", ""),
        (SHOW_CLICK, ""),
        ("", ctr.as_str()),
        (SHOW_CLICK, ctr.as_str()),
    ]
    .into_iter()
    .enumerate()
    {
        let model = match accessor {
            "" => model(&adagrad, entry, accessor),
            _ => model(&sgd, entry, accessor),
        };
        let width = lent_width(&model);
        // Both roads, and each with two numbers of cards.
        let (size, road) = ([2, 4][at / 2 % 2], [Road::Nccl, Road::Host][at % 2]);
        let expected = on_servers(&model, &batches, size, width);
        let job = Job { cards: cards[..size].to_vec(), road, ..Job::new(size, width) };
        let left = job.train(&model, &batches);
        let what = format!("{size} cards, {road:?}, {entry} {accessor}");
        same_records(&left.records, &expected.records, width, &what);
        left.close(&expected, &what);
    }
}

/// What several trainers with servers leave after each three steps, when trainer 0 does something to the
/// tables then.
fn aged_on_servers(
    model: &Model,
    batches: &[Batch],
    trainers: usize,
    folder: &str,
) -> Vec<(u64, Vec<f32>)> {
    let (width, seen) = (lent_width(model), Arc::new(Mutex::new(Vec::new())));
    let (kept, folder) = (Arc::clone(&seen), folder.to_owned());
    let rest = Arc::new(Barrier::new(trainers));
    let cluster = Cluster::new(trainers, SERVERS).after_step(move |done| {
        if done.steps % 3 == 0 {
            rest.wait();
            if done.trainer == 0 {
                between(done.worker, done.steps / 3, &folder)?;
                kept.lock().unwrap().push(records(done.worker, width)?);
            }
            rest.wait();
        }
        Ok(())
    });
    cluster.train(model, batches).unwrap();
    let seen = seen.lock().unwrap();
    seen.clone()
}

/// The same of ranks in GPUBox, where whoever saves does it as a script.
fn aged_by_ranks(
    model: &Model,
    batches: &[Batch],
    ranks: usize,
    folder: &str,
) -> Vec<(u64, Vec<f32>)> {
    let (width, seen) = (lent_width(model), Arc::new(Mutex::new(Vec::new())));
    let (kept, folder) = (Arc::clone(&seen), folder.to_owned());
    let job = Job {
        after_pass: Some(Arc::new(move |fleet, executor, pass| {
            let save = |name: &str, mode| {
                let folder = Path::new(&folder).join(name);
                fleet.save_persistables(&folder, executor.scope(), mode)
            };
            match pass {
                1 => save("base", SaveMode::Base)?,
                2 => save("delta", SaveMode::Delta)?,
                3 => {
                    save("aged", SaveMode::FullAging)?;
                    fleet.shrink()?;
                }
                _ => {}
            }
            fleet.flush()?;
            fleet.barrier_worker()?;
            if let (Some(worker), true) = (fleet.worker(), fleet.is_first_worker()) {
                kept.lock().unwrap().push(records(worker, width)?);
            }
            Ok(fleet.barrier_worker()?)
        })),
        ..Job::new(ranks, width)
    };
    job.train(model, batches);
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[test]
fn saves_deltas_and_days_of_ranks_are_those_of_sync_training() {
    let batches = ctr_batches(12, BATCH);
    let ctr = accessor("CtrCommonAccessor", "SparseAdaGradSGDRule", "SparseAdaGradSGDRule");
    let model = model(&Sgd::new(0.2), SHOW_CLICK, &ctr);
    for size in [2, 4] {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [on_cpu, in_box] = folders.each_ref().map(|folder| folder.path().to_str().unwrap());
        let expected = aged_on_servers(&model, &batches, size, on_cpu);
        let given = aged_by_ranks(&model, &batches, size, in_box);
        assert_eq!((given.len(), expected.len()), (4, 4));
        for (pass, (given, expected)) in given.iter().zip(&expected).enumerate() {
            close(given, expected, &format!("{size} ranks, after pass {}", pass + 1));
        }
        same_saves(&model, &batches[..3], [on_cpu, in_box]);
    }
}

#[test]
fn records_that_do_not_fit_leave_and_come_back() {
    let batches = ctr_batches(8, BATCH);
    let ctr = accessor("CtrCommonAccessor", "SparseAdaGradSGDRule", "SparseAdaGradSGDRule");
    for (entry, accessor) in [(SHOW_CLICK, ctr.as_str()), ("count_filter_entry:2", "")] {
        let model = model(&Adagrad::new(0.1), entry, accessor);
        let width = lent_width(&model);
        let roomy = Job { per_pass: 1, ..Job::new(2, width) };
        // Two passes have more keys than so few bytes hold.
        let narrow = Job { budget: Some(20 * (width * 4 + 80)), ..roomy.clone() };
        let left = roomy.train(&model, &batches);
        assert_eq!(left, narrow.train(&model, &batches), "where rows lie changes nothing");
    }
}

/// A model that reads the rows of its last slot, and does not train them.
fn half_trained(optimizer: &dyn Optimizer) -> Model {
    let graph = Graph::new();
    graph.set_random_seed(11);
    let label = layers::data(&graph, "label", [1], DType::I64);
    let mut feeds = vec!["label".to_owned()];
    let embedding = Embedding::new([200, 4])
        .sparse(true)
        .distributed(true)
        .param_attr(ParamAttr::named("emb").init(Initializer::uniform(-0.1, 0.1)));
    let mut inputs = Vec::new();
    for slot in ["slot0", "slot1", "slot2"] {
        let ids = layers::data(&graph, slot, [1], DType::I64);
        let rows = embedding.apply(&ids).unwrap();
        rows.set_stop_gradient(slot == "slot2");
        inputs.push(layers::reshape(&rows, &[-1, 4]).unwrap());
        feeds.push(slot.to_owned());
    }
    inputs.push(layers::data(&graph, "dense", [20], DType::F32));
    feeds.push("dense".to_owned());
    let joined = layers::concat(&inputs.iter().collect::<Vec<&Variable>>(), 1).unwrap();
    let logits = Fc::new(2).apply(&joined).unwrap();
    let (losses, _) = layers::softmax_with_cross_entropy(&logits, &label, Label::Hard).unwrap();
    let loss = layers::mean(&losses).unwrap();
    optimizer.minimize(&loss).unwrap();
    let main = graph.main();
    let names = main.parameters().map(|var| var.name.clone());
    Model {
        params: names.filter(|name| name != "emb").collect(),
        main,
        startup: graph.startup(),
        feeds,
        loss: loss.name().to_owned(),
        tables: vec![("emb".to_owned(), (0..200).collect(), 4)],
    }
}

#[test]
fn rows_that_are_read_alone_are_not_pushed() {
    let batches = ctr_batches(6, BATCH);
    let ctr = accessor("CtrCommonAccessor", "SparseAdaGradSGDRule", "SparseAdaGradSGDRule");
    // A push of a gradient of zeros would still move what Adam moves.
    let plain = half_trained(&Adam::new(0.01).epsilon(1e-3));
    let counted = half_trained(&Adagrad::new(0.1));
    for (name, model) in [
        ("plain", plain),
        ("count", with_records(counted.clone(), "count_filter_entry:2", "")),
        ("shows", with_records(counted.clone(), SHOW_CLICK, "")),
        ("accessor", with_records(counted, SHOW_CLICK, &ctr)),
    ] {
        let width = lent_width(&model);
        let expected = on_servers(&model, &batches, 2, width);
        let left = Job::new(2, width).train(&model, &batches);
        same_records(&left.records, &expected.records, width, name);
        left.close(&expected, name);
    }
}
