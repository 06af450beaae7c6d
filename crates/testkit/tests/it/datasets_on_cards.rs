//! Training over datasets on the emulated card: batches are assembled where the card takes them from, ahead of the
//! step, and what is trained is what the host trains.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bireme_data::{
    Batches, Input, MemoryDataset, MemorySettings, QueueDataset, QueueSettings, Result, Rows,
    Samples, Slot, Training, Values, train,
};
use bireme_engine::device::Device;
use bireme_engine::optimizer::Sgd;
use bireme_engine::{Executor, Place, Scope};
use bireme_testkit::models::{Model, Table, ctr_dnn};

use crate::gpubox::card;

/// Files of samples for `ctr_dnn`: how many each has.
pub(crate) struct Clicks(pub(crate) Vec<u64>);

struct Open {
    next: u64,
    end: u64,
}

impl Input for Clicks {
    fn files(&self) -> usize {
        self.0.len()
    }

    fn open(&self, file: usize) -> Result<Box<dyn Rows>> {
        let next = self.0[..file].iter().sum();
        Ok(Box::new(Open { next, end: next + self.0[file] }))
    }
}

impl Rows for Open {
    fn read(&mut self, out: &mut Samples, rows: usize) -> Result<bool> {
        for number in (self.next..self.end).take(rows) {
            self.next = number + 1;
            for (at, column) in out.columns_mut().iter_mut().enumerate() {
                match column.values_mut() {
                    Values::Ids(label) if at == 0 => label.push(number * 7 / 3 % 2),
                    Values::Ids(ids) => {
                        ids.push((number * number + number * (at as u64 + 3) * 37) % 200)
                    }
                    Values::Floats(dense) => {
                        dense.extend((0..20).map(|i| ((number * 31 + i) % 17) as f32 / 17.0 - 0.5));
                    }
                }
            }
            out.end_row();
        }
        Ok(self.next < self.end)
    }
}

pub(crate) fn slots() -> Vec<Slot> {
    let ids = ["label", "slot0", "slot1", "slot2"].map(Slot::id);
    ids.into_iter().chain([Slot::floats("dense", 20)]).collect()
}

fn memory(files: &[u64]) -> Vec<Box<dyn Batches>> {
    let settings = MemorySettings::new(Arc::new(Clicks(files.to_vec())), slots());
    let settings = MemorySettings { batch_size: 16, ..settings };
    let mut dataset = MemoryDataset::new(settings).unwrap();
    dataset.load().unwrap();
    dataset.local_shuffle(3);
    dataset.open(1).unwrap()
}

fn queue(files: &[u64]) -> Vec<Box<dyn Batches>> {
    let settings = QueueSettings::new(Arc::new(Clicks(files.to_vec())), slots());
    let settings = QueueSettings { batch_size: 16, buffer_bytes: 1, ..settings };
    QueueDataset::new(settings).unwrap().open(1).unwrap()
}

fn scope(model: &Model) -> Scope {
    let mut executor = Executor::new(Place::Cpu).unwrap();
    executor.run(&model.startup, &[], &[]).unwrap();
    executor.scope().clone()
}

/// What a training leaves, and how many of its batches lay in page-locked memory.
fn trained(
    model: &Model,
    batches: Vec<Box<dyn Batches>>,
    device: Option<&Arc<dyn Device>>,
) -> (Vec<Vec<f32>>, u64) {
    let (scope, slots) = (scope(model), slots());
    let (locked, said) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let hook = |done: &bireme_data::Progress<'_>| {
        locked.fetch_add(u64::from(done.data.is_page_locked()), Ordering::Relaxed);
        Ok(())
    };
    let warn = |text: &str| said.lock().unwrap().push(text.to_owned());
    let training = Training {
        device: device.cloned(),
        on_batch: Some(&hook),
        warn: Some(&warn),
        ..Training::new(&model.main, &scope, &slots)
    };
    train(&training, batches).unwrap();
    assert!(said.lock().unwrap().is_empty());
    let params = model.params.iter().map(|name| scope.get(name).unwrap());
    let params = params.map(|param| param.as_slice::<f32>().unwrap().to_vec()).collect();
    (params, locked.into_inner())
}

fn assert_close(mine: &[Vec<f32>], theirs: &[Vec<f32>]) {
    for (a, b) in mine.iter().flatten().zip(theirs.iter().flatten()) {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
}

#[test]
fn batches_of_memory_are_assembled_in_page_locked_memory() {
    let Some(card) = card() else { return };
    let model = ctr_dnn(Table::Sliced, &Sgd::new(0.1)).unwrap();
    // The last batch is short.
    let files = [100, 70, 35];
    let (expected, none) = trained(&model, memory(&files), None);
    let (first, locked) = trained(&model, memory(&files), Some(&card));
    assert_eq!((none, locked), (0, 13));
    assert_close(&first, &expected);
    let (again, _) = trained(&model, memory(&files), Some(&card));
    assert_eq!(first, again, "two runs on a card are the same to the bit");
}

#[test]
fn batches_of_a_queue_are_so_from_their_second_time_on() {
    let Some(card) = card() else { return };
    let model = ctr_dnn(Table::Sliced, &Sgd::new(0.1)).unwrap();
    let (expected, none) = trained(&model, queue(&[300, 20]), None);
    let (mine, locked) = trained(&model, queue(&[300, 20]), Some(&card));
    assert_close(&mine, &expected);
    assert_eq!(none, 0);
    assert!(locked >= 15, "{locked} of 20 batches");
}

#[test]
fn batches_that_were_trained_before_are_left_out() {
    let Some(card) = card() else { return };
    let model = ctr_dnn(Table::Sliced, &Sgd::new(0.1)).unwrap();
    let rest = || {
        let mut batches = memory(&[200]);
        assert_eq!(batches[0].skip(5).unwrap(), 5);
        batches
    };
    let (expected, _) = trained(&model, rest(), None);
    let (mine, locked) = trained(&model, rest(), Some(&card));
    assert_eq!(locked, 8);
    assert_close(&mine, &expected);
}

#[test]
fn a_card_finds_the_keys_that_threads_find() {
    let Some(card) = card() else { return };
    let keys: Vec<u64> = (0..30_000u64)
        .map(|at| at.wrapping_mul(at + 7).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (at % 60))
        .chain([0, u64::MAX, u64::MAX - 1, 0])
        .collect();
    let mut set = card.key_set(100).unwrap().unwrap();
    keys.chunks(7_000).for_each(|keys| set.add(keys).unwrap());
    let mut expected = keys.clone();
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(set.sorted().unwrap(), expected);
    assert!(card.key_set(1).unwrap().unwrap().sorted().unwrap().is_empty());
    // What is few is found by threads, and is the same.
    let settings = MemorySettings::new(Arc::new(Clicks(vec![100, 20])), slots());
    let mut dataset = MemoryDataset::new(settings).unwrap();
    dataset.load().unwrap();
    let groups = [vec!["slot0".to_owned(), "slot2".to_owned()], vec!["slot1".to_owned()]];
    for ranks in [1, 3] {
        let found = dataset.keys_with(&groups, 2, ranks, Some(&card)).unwrap();
        assert_eq!(found.most.len(), if ranks > 1 { groups.len() } else { 0 });
        assert_eq!(found, dataset.keys(&groups, 2, ranks).unwrap());
        assert_eq!(found, dataset.keys_by(&groups, 2, ranks, &card).unwrap().unwrap());
    }
}
