//! Data that is read while it is trained, by several ranks, each with a part of the rows: against sync
//! training with as many trainers on CPUs, with so little memory that rows leave and come back.

use anyhow::{Context, Result};
use bireme_data::Training;
use bireme_engine::Executor;
use bireme_engine::optimizer::{Adagrad, Adam, Sgd};
use bireme_fleet::Fleet;
use bireme_fleet::collective::Road;
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn, share};

use super::{BATCH, Job, WIDTH, cards, on_servers, optimizers};
use crate::gpubox::stream::{Given, slots};
use crate::gpubox_records::{SHOW_CLICK, accessor, lent_width, model, same_records};

/// Trains batches as they come.
pub(super) fn train(
    fleet: &Fleet,
    executor: &Executor,
    model: &Model,
    batches: &[Batch],
) -> Result<()> {
    let slots = slots(model);
    let stream = fleet.passes().context("it is a trainer's")?.stream()?;
    let training = Training {
        device: executor.device().cloned(),
        remote: fleet.worker().map(|worker| std::sync::Arc::clone(worker) as _),
        collective: fleet.rings().map(|rings| rings as _),
        ..Training::new(fleet.main_program()?, executor.scope(), &slots)
    };
    let streamed = stream.over(Given::all(model, batches), &slots, true)?;
    let summary = bireme_data::train(&training, vec![streamed])?;
    fleet.passes().context("it is a trainer's")?.trained(summary.batches);
    Ok(())
}

/// Bytes of so many rows of a table with so many numbers in a record.
fn memory(rows: usize, record: usize) -> usize {
    rows * (record * 4 + 64)
}

fn streams(size: usize, record: usize) -> Job {
    Job { streams: true, per_pass: 4, ..Job::new(size, record) }
}

#[test]
fn ranks_that_stream_equal_sync_training_whatever_the_memory() {
    let batches = ctr_batches(10, BATCH);
    for (optimizer, states) in optimizers() {
        let model = ctr_dnn(Table::Keyed, optimizer.as_ref()).unwrap();
        let record = states * WIDTH;
        for size in [1, 2, 4] {
            let what = format!("{size} ranks");
            let expected = on_servers(&model, &batches, size, record);
            let roomy = streams(size, record).train(&model, &batches);
            roomy.close(&expected, &what);
            // A batch of all has 48 ids at most, of which one rank may have all.
            let budget = Some(memory(50, record));
            let narrow = Job { budget, ..streams(size, record) };
            let left = narrow.train(&model, &batches);
            assert_eq!(left, roomy, "{what}: where rows lie changes nothing");
            let alone = Job { servers: 0, ..narrow };
            assert_eq!(alone.train(&model, &batches), roomy, "{what}, without servers");
        }
    }
}

#[test]
fn ranks_on_cards_stream_what_ranks_on_cpus_do() {
    let Some(cards) = cards(2) else { return };
    let batches = ctr_batches(8, BATCH);
    let adam = Adam::new(0.01).epsilon(1e-3);
    let model = ctr_dnn(Table::Keyed, &adam).unwrap();
    let expected = on_servers(&model, &batches, 2, 3 * WIDTH);
    for road in [Road::Host, Road::Nccl] {
        let budget = Some(memory(60, 3 * WIDTH));
        let job = Job { cards: cards.clone(), road, budget, ..streams(2, 3 * WIDTH) };
        let left = job.train(&model, &batches);
        left.close(&expected, &format!("{road:?}"));
        assert_eq!(left, job.train(&model, &batches), "two runs are the same to the bit");
    }
}

#[test]
fn records_that_count_are_streamed_by_ranks() {
    let batches = ctr_batches(8, BATCH);
    let ctr = accessor("CtrCommonAccessor", "SparseAdaGradSGDRule", "SparseAdaGradSGDRule");
    for (entry, accessor) in [(SHOW_CLICK, ctr.as_str()), ("count_filter_entry:2", "")] {
        let model = model(&Adagrad::new(0.1), entry, accessor);
        let width = lent_width(&model);
        let expected = on_servers(&model, &batches, 2, width);
        let narrow = Job { budget: Some(memory(50, 2 * width)), ..streams(2, width) };
        let left = narrow.train(&model, &batches);
        same_records(&left.records, &expected.records, width, entry);
        left.close(&expected, entry);
    }
}

#[test]
fn ranks_with_more_batches_end_with_the_one_that_has_the_fewest() {
    let model = ctr_dnn(Table::Keyed, &Sgd::new(0.2)).unwrap();
    let batches = ctr_batches(6, BATCH);
    let of_rank = |rank: usize, count: usize| {
        batches[..count].iter().map(|batch| share(batch, rank, 2)).collect::<Vec<Batch>>()
    };
    let job = Job { per_pass: 6, ..streams(2, WIDTH) };
    let left = job.train_each(&model, &[of_rank(0, 6), of_rank(1, 4)]);
    let left = left.into_iter().next().unwrap().unwrap();
    assert_eq!(left, job.train(&model, &batches[..4]));
}

#[test]
fn a_batch_that_alone_needs_too_much_memory_ends_all_ranks() {
    let model = ctr_dnn(Table::Keyed, &Sgd::new(0.2)).unwrap();
    let batches = ctr_batches(3, BATCH);
    let job = Job { budget: Some(memory(6, WIDTH)), ..streams(2, WIDTH) };
    let shares: Vec<Vec<Batch>> =
        (0..2).map(|rank| batches.iter().map(|batch| share(batch, rank, 2)).collect()).collect();
    for ended in job.train_each(&model, &shares) {
        let error = format!("{:#}", ended.unwrap_err());
        assert!(error.contains("the rows of a single batch take"), "{error}");
    }
}
