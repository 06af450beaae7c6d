//! What a dataset in memory promises: every sample once, in few bytes, in an order that a seed
//! decides.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Barrier, Mutex};

use bireme_engine::ops::PassIndex;

use super::*;
use crate::Batch;
use crate::testing::{BAD, Numbers, labels, slots};
use crate::{Rows, Samples, Values};

fn dataset(files: &[std::ops::Range<u64>], readers: usize) -> MemoryDataset {
    let numbers = files.iter().map(|range| range.clone().collect()).collect();
    let settings = MemorySettings::new(Arc::new(Numbers(numbers)), slots());
    let mut dataset =
        MemoryDataset::new(MemorySettings { batch_size: 4, readers, ..settings }).unwrap();
    dataset.load().unwrap();
    dataset
}

/// The batches of each thread.
fn read(dataset: &MemoryDataset, threads: usize) -> Vec<Vec<Vec<u64>>> {
    let all = |mut batches: Box<dyn Batches>| {
        let (mut found, mut batch) = (Vec::new(), Batch::of(&slots()));
        while batches.next(&mut batch).unwrap() {
            found.push(labels(&batch));
        }
        found
    };
    dataset.open(threads).unwrap().into_iter().map(all).collect()
}

fn flat(dataset: &MemoryDataset) -> Vec<u64> {
    read(dataset, 1).into_iter().flatten().flatten().collect()
}

#[test]
fn the_order_is_that_of_the_files_with_any_number_of_readers() {
    let files = [0..7, 7..7, 7..200_000, 200_000..200_003, 200_003..200_100];
    for readers in [1, 3, 8] {
        let dataset = dataset(&files, readers);
        assert_eq!(dataset.len(), 200_100);
        assert_eq!(flat(&dataset), (0..200_100).collect::<Vec<_>>());
    }
}

#[test]
fn threads_take_batches_in_turn() {
    let mut dataset = dataset(&[0..6, 6..11], 1);
    assert_eq!(read(&dataset, 2), [vec![vec![0, 1, 2, 3], vec![8, 9, 10]], vec![vec![4, 5, 6, 7]]]);
    let mut batches = dataset.open(2).unwrap();
    let mut batch = Batch::of(&slots());
    assert_eq!(batches[0].skip(1).unwrap(), 1);
    assert!(batches[0].next(&mut batch).unwrap());
    assert_eq!(labels(&batch), [8, 9, 10]);
    assert_eq!((batches[0].skip(9).unwrap(), batches[1].skip(9).unwrap()), (0, 1));
    dataset.settings.drop_last = true;
    assert_eq!(read(&dataset, 2), [vec![vec![0, 1, 2, 3]], vec![vec![4, 5, 6, 7]]]);
}

#[test]
fn a_local_shuffle_depends_on_its_seed_alone() {
    let mut dataset = dataset(&[0..50, 50..100], 2);
    dataset.local_shuffle(1);
    let first = flat(&dataset);
    dataset.local_shuffle(2);
    let second = flat(&dataset);
    dataset.local_shuffle(1);
    assert_eq!(flat(&dataset), first);
    assert_ne!(first, second);
    let mut sorted = second;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..100).collect::<Vec<_>>());
}

#[test]
fn slots_get_the_values_of_other_samples_and_their_own_back() {
    let mut dataset = dataset(&[0..50, 50..100], 1);
    let column = |dataset: &MemoryDataset, slot: usize| {
        let (mut found, mut batch) = (Vec::new(), Batch::of(&slots()));
        let mut batches = dataset.open(1).unwrap();
        while batches[0].next(&mut batch).unwrap() {
            found.extend(batch.tensors()[slot].to_f64_vec());
        }
        found
    };
    let before = [column(&dataset, 0), column(&dataset, 1), column(&dataset, 2)];
    dataset.slots_shuffle(&["ids"], 3).unwrap();
    assert_eq!([column(&dataset, 0), column(&dataset, 2)], [before[0].clone(), before[2].clone()]);
    let mut shuffled = column(&dataset, 1);
    assert_ne!(shuffled, before[1]);
    shuffled.sort_by(f64::total_cmp);
    assert_eq!(shuffled, before[1]);
    assert!(dataset.slots_shuffle(&["idz"], 3).unwrap_err().to_string().contains("`idz`"));
    dataset.slots_shuffle(&[], 0).unwrap();
    assert_eq!(column(&dataset, 1), before[1]);
}

#[test]
fn preloading_leaves_what_is_held_until_it_is_waited_for() {
    let mut dataset = dataset(&[0..5, 5..10], 1);
    dataset.set_input(Arc::new(Numbers(vec![(0..30).collect()])));
    dataset.preload(2).unwrap();
    assert!(dataset.preload(2).is_err());
    assert_eq!(dataset.len(), 10);
    dataset.wait().unwrap();
    dataset.wait().unwrap();
    assert_eq!(dataset.len(), 30);
    dataset.set_input(Arc::new(Numbers(vec![vec![1, BAD], vec![2]])));
    assert_eq!(dataset.load().unwrap_err().to_string(), "a bad number");
    assert_eq!(dataset.len(), 30);
    dataset.release();
    assert_eq!((dataset.len(), dataset.bytes()), (0, 0));
    let error = dataset.open(1).err().unwrap().to_string();
    assert!(error.contains("load_into_memory"), "{error}");
}

#[test]
fn a_load_can_be_stopped_while_a_command_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("part-0");
    std::fs::write(&file, "1 1\n").unwrap();
    let mut source = crate::source::Source::new(vec![file], crate::parse::Format::multi_slot());
    source.pipe_command = Some("sleep 600".to_owned());
    let slots = vec![crate::Slot::id("label")];
    let input = Arc::new(crate::Files::new(source, &slots).unwrap());
    let mut dataset = MemoryDataset::new(MemorySettings::new(input.clone(), slots)).unwrap();
    dataset.preload(1).unwrap();
    assert!(matches!(dataset.wait_unless(&|| true), Err(Error::Interrupted)));
    // The thread that read lets go of the file, and with it of the command.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while Arc::strong_count(&input) > 2 {
        assert!(std::time::Instant::now() < end, "the command still runs");
        std::thread::yield_now();
    }
}

/// Criteo's samples with hashed ids.
struct Criteo;

impl Input for Criteo {
    fn files(&self) -> usize {
        2
    }

    fn open(&self, _: usize) -> Result<Box<dyn Rows>> {
        Ok(Box::new(Criteo))
    }
}

impl Rows for Criteo {
    fn read(&mut self, out: &mut Samples, _: usize) -> Result<bool> {
        for row in 0..100_000_u64 {
            for (at, column) in out.columns_mut().iter_mut().enumerate() {
                match column.values_mut() {
                    Values::Ids(ids) if at == 0 => ids.push(row % 2),
                    Values::Ids(ids) => ids.push((row * 7919 + at as u64 * 104_729) % 1_000_001),
                    Values::Floats(values) => values.extend([row as f32; 13]),
                }
            }
            out.end_row();
        }
        Ok(false)
    }
}

#[test]
fn a_criteo_sample_takes_less_than_a_quarter_of_paddles_bytes() {
    let slots: Vec<Slot> = std::iter::once(Slot::id("label"))
        .chain((1..=26).map(|slot| Slot::id(slot.to_string())))
        .chain([Slot::floats("dense_input", 13)])
        .collect();
    let mut dataset = MemoryDataset::new(MemorySettings::new(Arc::new(Criteo), slots)).unwrap();
    dataset.load().unwrap();
    let per_sample = dataset.bytes() as f64 / dataset.len() as f64;
    // One byte for the label, four for each id and number, four for the order.
    assert!((161.0..162.0).contains(&per_sample), "{per_sample} bytes");
}

/// Trainers on threads.
struct Meeting {
    rank: usize,
    to: Vec<Sender<(usize, Vec<u8>)>>,
    from: Mutex<Receiver<(usize, Vec<u8>)>>,
    together: Arc<Barrier>,
}

impl Exchange for Meeting {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn exchange(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        for (to, part) in self.to.iter().zip(parts) {
            to.send((self.rank, part)).unwrap();
        }
        let from = self.from.lock().unwrap();
        let mut came: Vec<_> = self.to.iter().map(|_| from.recv().unwrap()).collect();
        came.sort();
        self.together.wait();
        Ok(came.into_iter().map(|(_, part)| part).collect())
    }
}

fn shuffled_by(trainers: usize, seed: u64) -> Vec<Vec<u64>> {
    let (to, from): (Vec<_>, Vec<_>) = (0..trainers).map(|_| channel()).unzip();
    let together = Arc::new(Barrier::new(trainers));
    let work = |(rank, from): (usize, _)| {
        let peers = Meeting {
            rank,
            to: to.clone(),
            from: Mutex::new(from),
            together: Arc::clone(&together),
        };
        std::thread::spawn(move || {
            // The first has more than one round to send, the last nothing.
            let first = [0..100_000, 100_000..100_500, 100_500..100_500][rank].clone();
            let mut dataset = dataset(&[first], 1);
            dataset.global_shuffle(&peers, seed).unwrap();
            flat(&dataset)
        })
    };
    let threads: Vec<_> = from.into_iter().enumerate().map(work).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn a_global_shuffle_loses_nothing_and_depends_on_its_seed_alone() {
    let once = shuffled_by(3, 5);
    assert_eq!(once, shuffled_by(3, 5));
    assert_ne!(once, shuffled_by(3, 6));
    for part in &once {
        // A third each, as chance wills.
        assert!((33_000..34_000).contains(&part.len()), "{}", part.len());
        assert!(part.is_sorted_by(|a, b| a < b) == part.is_empty());
    }
    let mut all = once.concat();
    all.sort_unstable();
    assert_eq!(all, (0..100_500).collect::<Vec<_>>());
}

#[test]
fn keys_are_those_of_all_samples_or_of_parts() {
    let dataset = dataset(&[0..6, 6..11], 2);
    let groups = [vec!["label".to_owned()], vec!["ids".to_owned(), "label".to_owned()]];
    for threads in [1, 3] {
        let all = dataset.keys(&groups, threads, 1).unwrap();
        assert_eq!((all.batches, all.keys[0].clone()), (3, (0..11).collect()));
        let mut expected: Vec<u64> = (0..11).collect();
        expected.extend((0..11u64).flat_map(|n| (0..=n % 10).map(move |id| n * 1000 + id)));
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(all.keys[1], expected);
    }
    // Four labels a batch: two batches have eight.
    let cut = |most: usize| {
        let least = |mine: u64| Ok(mine);
        let (groups, most, ranks) = (&groups[..1], Some(most), 1);
        let wanted =
            Wanted { groups, bytes_of_key: &[10], most, ranks, device: None, least: &least };
        dataset.keyed_parts(&wanted, 2)
    };
    let sizes = |parts: Vec<KeyedPart>| {
        parts.iter().map(|part| (part.batches, part.keys[0].len())).collect::<Vec<_>>()
    };
    assert_eq!(sizes(cut(80).unwrap()), [(2, 8), (1, 3)]);
    assert_eq!(sizes(cut(110).unwrap()), [(3, 11)]);
    let error = cut(39).unwrap_err().to_string();
    assert!(error.contains("a single batch take 40 bytes, and 39 may be used"), "{error}");
    let error = dataset.keys(&[vec!["dense".to_owned()]], 1, 1).unwrap_err().to_string();
    assert!(error.contains("slot `dense` has no ids"), "{error}");
    let error = dataset.keys(&[vec!["other".to_owned()]], 1, 1).unwrap_err().to_string();
    assert!(error.contains("`other`, which is no slot"), "{error}");
}

/// Two ranks with different data and room have as many parts, of as many batches.
#[test]
fn ranks_cut_their_data_together() {
    let said = [Mutex::new(0u64), Mutex::new(0)];
    let barrier = Barrier::new(2);
    let rank = |rank: usize, samples: std::ops::Range<u64>, most: usize| {
        let dataset = dataset(&[samples], 1);
        let least = |mine: u64| {
            *said[rank].lock().unwrap() = mine;
            barrier.wait();
            let [first, second] = [0, 1].map(|rank| *said[rank].lock().unwrap());
            let least = first.min(second);
            barrier.wait();
            Ok(least)
        };
        let groups = [vec!["label".to_owned()]];
        let (groups, most, ranks) = (&groups[..], Some(most), 2);
        let wanted =
            Wanted { groups, bytes_of_key: &[10], most, ranks, device: None, least: &least };
        let parts = dataset.keyed_parts(&wanted, 1).unwrap();
        for part in &parts {
            // Of four labels in a batch, at least half lie with one of two ranks.
            assert!((2..=4).contains(&part.most[0]), "{:?}", part.most);
        }
        parts.iter().map(|part| (part.batches, part.keys[0].len())).collect::<Vec<_>>()
    };
    let rank = &rank;
    std::thread::scope(|scope| {
        // Seven batches and three; the first has room for two at a time, the second for all.
        let first = scope.spawn(move || rank(0, 0..28, 80));
        let second = scope.spawn(move || rank(1, 100..112, 1000));
        assert_eq!(first.join().unwrap(), [(2, 8), (1, 4)]);
        assert_eq!(second.join().unwrap(), [(2, 8), (1, 4)]);
    });
}

/// An index that gives key `k` of these numbers the row `k + 1`.
fn index(numbers: std::ops::Range<u64>) -> PassIndex {
    let mut index = PassIndex::default();
    for (at, number) in numbers.enumerate() {
        (0..=number % 10).for_each(|id| {
            index.insert(number * 1000 + id, 1 + at as u64 * 10 + id);
        });
    }
    index
}

fn tensors(mut batches: Box<dyn Batches>) -> Vec<(Vec<i64>, Vec<Vec<usize>>)> {
    let (mut found, mut batch) = (Vec::new(), Batch::of(&slots()));
    while batches.next(&mut batch).unwrap() {
        let ids = batch.tensors()[1];
        let values = match ids.as_slice::<i32>() {
            Ok(rows) => rows.iter().map(|row| i64::from(*row)).collect(),
            Err(_) => ids.as_slice::<i64>().unwrap().to_vec(),
        };
        found.push((values, ids.lod().to_vec()));
    }
    found
}

#[test]
fn row_numbers_of_ragged_slots_take_the_place_of_ids() {
    let mut data = dataset(&[0..300, 300..1000], 3);
    data.load().unwrap();
    let index = index(0..1000);
    let padding = Some(7 * 1000);
    let key_slot = || [KeySlot { name: "ids", index: &index, padding }];
    let rows = Arc::new(data.row_numbers(&key_slot(), None, 2).unwrap());
    assert!(rows.bytes() >= 4 * 5500 && rows.are_used());
    for seed in [None, Some(1), Some(2)] {
        if let Some(seed) = seed {
            data.local_shuffle(seed);
        }
        data.slots_shuffle(if seed == Some(2) { &["ids"] } else { &[] }, 3).unwrap();
        let keys = tensors(data.part(0..u64::MAX, None).unwrap());
        let by_rows = tensors(data.part(0..u64::MAX, Some(&rows)).unwrap());
        assert_eq!(keys.len(), by_rows.len());
        for ((keys, lod), (rows, row_lod)) in keys.iter().zip(&by_rows) {
            let row = |key: &i64| match Some(*key as u64) == padding {
                true => 0,
                false => index.row(*key as u64).unwrap() as i64,
            };
            assert_eq!(*rows, keys.iter().map(row).collect::<Vec<_>>());
            assert_eq!(lod, row_lod);
        }
    }
}

#[test]
fn row_numbers_of_some_batches_are_those_of_no_others() {
    let mut data = dataset(&[0..100, 100..200], 1);
    data.load().unwrap();
    data.local_shuffle(4);
    let index = index(0..200);
    let slots = [KeySlot { name: "ids", index: &index, padding: None }];
    let rows = Arc::new(data.row_numbers(&slots, Some(3..9), 2).unwrap());
    let whole = Arc::new(data.row_numbers(&slots, None, 2).unwrap());
    let part = |rows| tensors(data.part(3..9, Some(rows)).unwrap());
    assert_eq!(part(&rows), part(&whole));
    assert_eq!(part(&rows).len(), 6);
    assert!(data.part(3..10, Some(&rows)).is_err());
    data.local_shuffle(5);
    assert!(data.part(3..9, Some(&rows)).is_err(), "other samples are in these batches now");
    assert!(data.part(3..9, Some(&whole)).is_ok());
    let missing = [KeySlot { name: "dense", index: &index, padding: None }];
    assert!(data.row_numbers(&missing, None, 1).is_err());
}

/// Ids of one, two, four and eight bytes, so that chunks have different layouts.
#[test]
fn shuffled_samples_of_different_layouts_keep_their_values() {
    let most = [1 << 8, 1 << 16, 1 << 32, 1 << 40, 1 << 16];
    let numbers: Vec<u64> =
        most.iter().flat_map(|most| (0..150).map(move |at| most - 1 - at)).collect();
    let mut data = dataset(&[0..1, 1..1], 1);
    let mut store = Store::default();
    for numbers in numbers.chunks(150) {
        let mut samples = Samples::of(&slots());
        numbers.iter().for_each(|number| crate::testing::push(&mut samples, *number));
        store.push(columns::Columns::pack(&samples, 0..150).into());
    }
    // The second and the last chunk have the same.
    let layout = |at: usize| Arc::as_ptr(store.chunks[at].layout());
    assert!(layout(1) == layout(4) && layout(1) != layout(0));
    let places = (0..750).map(|at| (at / 150 * columns::MAX_ROWS + at % 150) as u32);
    let mut order: Vec<u32> = places.collect();
    shuffle(&mut order, 1, "layouts", 0);
    let at = |sample: &u32| {
        let (chunk, row) = Store::place(*sample);
        numbers[chunk * 150 + row]
    };
    let expected: Vec<u64> = order.iter().map(at).collect();
    (data.held.store, data.held.order) = (Arc::new(store), Arc::new(order));
    for batch_size in [1, 64, 200, 750] {
        data.set_batch_size(batch_size);
        assert_eq!(flat(&data), expected);
    }
    // With row numbers in the place of the labels, every row in its sample's place.
    let mut index = PassIndex::default();
    numbers.iter().enumerate().for_each(|(row, number)| {
        if index.row(*number).is_none() {
            index.insert(*number, row as u64);
        }
    });
    fn slot(index: &PassIndex) -> [KeySlot<'_>; 1] {
        [KeySlot { name: "label", index, padding: None }]
    }
    let rows = Arc::new(data.row_numbers(&slot(&index), None, 2).unwrap());
    let mut batch = Batch::of(&slots());
    assert!(data.part(0..u64::MAX, Some(&rows)).unwrap().next(&mut batch).unwrap());
    let found = batch.tensors()[0].as_slice::<i32>().unwrap().to_vec();
    let right = expected.iter().map(|number| index.row(*number).unwrap() as i32);
    assert_eq!(found, right.collect::<Vec<_>>());
    let dense = batch.tensors()[2].as_slice::<f32>().unwrap().chunks(2).map(|pair| pair[0]);
    assert!(dense.eq(expected.iter().map(|number| *number as f32)));
    // A key that has no row is named.
    let missing = expected[300];
    index.remove(missing, &mut Vec::new());
    let rows = Arc::new(data.row_numbers(&slot(&index), None, 1).unwrap());
    let error = data.part(0..u64::MAX, Some(&rows)).unwrap().next(&mut batch).unwrap_err();
    assert!(error.to_string().contains(&format!("key {missing} of slot `label`")), "{error}");
}
