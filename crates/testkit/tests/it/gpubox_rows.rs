//! Passes of GPUBox by row numbers against the same passes by keys, which each step looks up: equal to the bit, on CPUs
//! and on the emulated card, whatever happens to the dataset between passes.

use std::sync::Arc;

use bireme_data::{KeyedPart, MemoryDataset, MemorySettings, Training, train};
use bireme_engine::DType;
use bireme_engine::device::Device;
use bireme_engine::optimizer::{Adagrad, Adam};
use bireme_testkit::models::{Model, Table, ctr_dnn};

use crate::datasets_on_cards::{Clicks, slots};
use crate::gpubox::{Job, Left, card};

const RECORD: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Road {
    Rows,
    Keys,
}

/// What happens between passes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    Shuffle,
    /// Slots have values of other samples in the second pass.
    SwapSlots,
    /// Other samples, of which some keys are new.
    Load,
}

fn model() -> Model {
    ctr_dnn(Table::Keyed, &Adagrad::new(0.1).initial_accumulator_value(0.1)).unwrap()
}

fn dataset(samples: u64) -> MemoryDataset {
    let settings = MemorySettings::new(Arc::new(Clicks(vec![samples, samples / 2])), slots());
    let mut data = MemoryDataset::new(MemorySettings { batch_size: 16, ..settings }).unwrap();
    data.load().unwrap();
    data
}

/// The parts that an epoch is cut into.
fn parts(job: &Job, data: &MemoryDataset) -> Vec<KeyedPart> {
    job.fleet.passes().unwrap().parts(data, 2).unwrap()
}

/// Trains all parts of what `data` holds; the next ones are made ready meanwhile.
fn pass(job: &Job, data: &MemoryDataset, road: Road) -> usize {
    let (parts, program) = (parts(job, data), job.fleet.main_program().unwrap());
    let (mut first, slots) = (0, slots());
    for (at, part) in parts.iter().enumerate() {
        let mut passes = job.fleet.passes().unwrap();
        passes.begin(part).unwrap();
        let next = parts.get(at + 1).map(|next| (passes.ahead(), next.keys.clone()));
        let thread = next.map(|(ahead, keys)| std::thread::spawn(move || ahead.prepare(keys)));
        let range = first..first + part.batches;
        first = range.end;
        let given = (parts.len() > 1).then(|| range.clone());
        let mut run = passes.run_over(program, &[], data, given.clone()).unwrap();
        if run.program.is_none() {
            assert!(job.executor.device().is_some(), "on CPUs samples are numbered at once");
            // On a card when they are used again.
            run = passes.run_over(program, &[], data, given).unwrap();
        }
        let by_rows = run.program.as_ref().unwrap();
        assert!(by_rows.global().ops.iter().all(|op| op.kind != "find_rows"));
        assert_eq!(by_rows.global().var("slot1").unwrap().dtype, DType::I32);
        let (program, batches) = match road {
            Road::Rows => (by_rows, run.open(data, 0).unwrap()),
            Road::Keys => (program, data.part(range, None).unwrap()),
        };
        let device = job.executor.device().cloned();
        let training = Training { device, ..Training::new(program, job.executor.scope(), &slots) };
        let summary = train(&training, vec![batches]).unwrap();
        assert_eq!(summary.batches, part.batches);
        passes.trained(summary.batches);
        // It works while a pass is trained only.
        thread.into_iter().for_each(|thread| thread.join().unwrap());
        passes.end().unwrap();
    }
    parts.len()
}

fn trained(
    device: Option<&Arc<dyn Device>>,
    budget: Option<usize>,
    between: Between,
    road: Road,
) -> (Left, usize) {
    let model = model();
    let mut job = Job::start(&model, device, budget);
    let mut data = dataset(60);
    let mut most = 0;
    for number in 0..3 {
        most = most.max(pass(&job, &data, road));
        match between {
            Between::Nothing => {}
            Between::Shuffle => data.local_shuffle(number),
            Between::SwapSlots if number == 0 => data.slots_shuffle(&["slot1"], 4).unwrap(),
            Between::SwapSlots => data.slots_shuffle(&[], 4).unwrap(),
            Between::Load => data = dataset(60 + 30 * (number + 1)),
        }
    }
    let left = job.left(&model, RECORD);
    job.fleet.stop_worker().unwrap();
    (left, most)
}

/// So many bytes hold the rows of a few batches.
const NARROW: usize = 60 * (RECORD * 4 + 64);

#[test]
fn row_numbers_train_what_keys_train() {
    for between in [Between::Nothing, Between::Shuffle, Between::SwapSlots, Between::Load] {
        for budget in [None, Some(NARROW)] {
            let (rows, parts) = trained(None, budget, between, Road::Rows);
            assert_eq!(parts > 1, budget.is_some(), "{parts} parts");
            assert_eq!(rows, trained(None, budget, between, Road::Keys).0);
        }
    }
}

#[test]
fn row_numbers_train_what_keys_train_on_a_card() {
    let Some(card) = card() else { return };
    for (between, budget) in [(Between::Shuffle, None), (Between::Load, Some(NARROW))] {
        let (rows, _) = trained(Some(&card), budget, between, Road::Rows);
        assert_eq!(rows, trained(Some(&card), budget, between, Road::Keys).0);
    }
}

#[test]
fn a_key_that_the_pass_does_not_have_is_named() {
    let model = ctr_dnn(Table::Keyed, &Adam::new(0.01)).unwrap();
    let job = Job::start(&model, None, None);
    let data = dataset(20);
    let mut passes = job.fleet.passes().unwrap();
    let mut part = data.keys(&passes.plan().groups(), 1, 1).unwrap();
    let lost = part.keys[0].remove(3);
    passes.begin(&part).unwrap();
    let run = passes.run_over(job.fleet.main_program().unwrap(), &[], &data, None).unwrap();
    let slots = slots();
    let training = Training::new(run.program.as_ref().unwrap(), job.executor.scope(), &slots);
    let error = train(&training, vec![run.open(&data, 0).unwrap()]).unwrap_err().to_string();
    assert!(error.contains(&format!("key {lost} of slot `slot")), "{error}");
    assert!(error.contains("is not among the keys of this pass"), "{error}");
}

#[test]
fn samples_that_changed_are_not_trained_by_the_rows_of_others() {
    let model = model();
    let job = Job::start(&model, None, None);
    let mut data = dataset(20);
    let mut passes = job.fleet.passes().unwrap();
    let part = data.keys(&passes.plan().groups(), 1, 1).unwrap();
    passes.begin(&part).unwrap();
    let program = job.fleet.main_program().unwrap();
    let run = passes.run_over(program, &[], &data, None).unwrap();
    data.local_shuffle(5);
    assert!(run.open(&data, 0).is_ok(), "another order changes no sample");
    data.load().unwrap();
    let error = run.open(&data, 0).map(drop).unwrap_err().to_string();
    assert!(error.contains("the samples have changed"), "{error}");
    // Whoever fetches the keys of a slot gets keys.
    let run = passes.run_over(program, &["slot0".to_owned()], &data, None).unwrap();
    let global = run.program.as_ref().unwrap().global();
    let found = global.ops.iter().find(|op| op.kind == "find_rows").unwrap();
    assert_eq!(found.inputs_of("Ids"), ["slot0"]);
    let dtypes = ["slot0", "slot1"].map(|name| global.var(name).unwrap().dtype);
    assert_eq!(dtypes, [DType::I64, DType::I32]);
}
