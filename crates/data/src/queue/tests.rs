//! What a queue promises: every sample once, in an order that a run can rely on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::testing::{BAD, Numbers, labels, push, slots};
use crate::{Counters, Rows, Samples};

fn settings(files: &[std::ops::Range<u64>]) -> QueueSettings {
    let numbers = files.iter().map(|range| range.clone().collect()).collect();
    let input = Arc::new(Numbers(numbers));
    QueueSettings { batch_size: 4, ..QueueSettings::new(input, slots()) }
}

/// The batches of each thread.
fn read(settings: &QueueSettings, threads: usize) -> Vec<Vec<Vec<u64>>> {
    let opened = QueueDataset::new(settings.clone()).unwrap().open(threads).unwrap();
    let all = |mut batches: Box<dyn Batches>| {
        let (mut found, mut batch) = (Vec::new(), Batch::of(&slots()));
        while batches.next(&mut batch).unwrap() {
            found.push(labels(&batch));
        }
        found
    };
    opened.into_iter().map(all).collect()
}

fn sorted(batches: &[Vec<Vec<u64>>]) -> Vec<u64> {
    let mut all: Vec<u64> = batches.iter().flatten().flatten().copied().collect();
    all.sort_unstable();
    all
}

#[test]
fn reader_r_reads_every_nth_file_and_batches_go_over_the_ends_of_files() {
    let mut settings = settings(&[0..6, 100..103, 6..11, 103..104]);
    assert_eq!(
        read(&settings, 1),
        [[vec![0, 1, 2, 3], vec![4, 5, 100, 101], vec![102, 6, 7, 8], vec![9, 10, 103]]]
    );
    settings.readers = 2;
    let first = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10]];
    let second = vec![vec![100, 101, 102, 103]];
    assert_eq!(read(&settings, 2), [first.clone(), second.clone()]);
    // One thread takes from the readers in turn.
    let turns = [&first[0], &second[0], &first[1], &first[2]].map(Clone::clone);
    assert_eq!(read(&settings, 1), [turns]);
    settings.drop_last = true;
    assert_eq!(read(&settings, 2), [first[..2].to_vec(), second]);
}

#[test]
fn a_reader_deals_to_several_threads_in_turn() {
    let settings = settings(&[0..4, 4..10]);
    let found = read(&settings, 2);
    assert_eq!(found, [vec![vec![0, 1, 2, 3], vec![8, 9]], vec![vec![4, 5, 6, 7]]]);
    let three = QueueSettings { readers: 2, ..self::settings(&[0..1000, 1000..2000]) };
    assert_eq!(sorted(&read(&three, 3)), (0..2000).collect::<Vec<_>>());
    let five = QueueSettings { readers: 5, ..self::settings(&[0..10, 10..20, 20..30, 30..40]) };
    assert_eq!(sorted(&read(&five, 3)), (0..40).collect::<Vec<_>>());
}

#[test]
fn shuffling_depends_on_seed_and_epoch_alone() {
    let mut settings = settings(&[0..500, 500..900, 900..1000]);
    settings.readers = 2;
    settings.shuffle = Some(Shuffle { seed: 7, window: 300 });
    let once = read(&settings, 2);
    assert_eq!(once, read(&settings, 2));
    assert_eq!(sorted(&once), (0..1000).collect::<Vec<_>>());
    settings.epoch = 1;
    let next = read(&settings, 2);
    assert_ne!(once, next);
    assert_eq!(sorted(&next), (0..1000).collect::<Vec<_>>());
}

#[test]
fn batches_that_were_trained_before_can_be_skipped() {
    let settings = QueueSettings { readers: 2, ..settings(&[0..60, 60..100]) };
    let whole = read(&settings, 1);
    let mut rest = QueueDataset::new(settings).unwrap().open(1).unwrap();
    assert_eq!(rest[0].skip(9).unwrap(), 9);
    let mut batch = Batch::of(&slots());
    for right in &whole[0][9..] {
        assert!(rest[0].next(&mut batch).unwrap());
        assert_eq!(labels(&batch), *right);
    }
    assert_eq!(rest[0].skip(5).unwrap(), 0);
}

#[test]
fn readers_draw_from_a_share_until_all_files_are_read() {
    let counters = Arc::new(Counters::new());
    let files: Vec<_> = (0..20).map(|file| file * 10..file * 10 + 10).collect();
    let mut settings = QueueSettings { readers: 3, ..settings(&files) };
    settings.share = Some(counters);
    assert_eq!(sorted(&read(&settings, 3)), (0..200).collect::<Vec<_>>());
    assert!(sorted(&read(&settings, 3)).is_empty());
    settings.epoch = 1;
    assert_eq!(sorted(&read(&settings, 3)), (0..200).collect::<Vec<_>>());
}

#[test]
fn an_error_comes_after_the_batches_before_it() {
    let numbers = vec![(0..300).chain([BAD]).collect()];
    let settings = QueueSettings::new(Arc::new(Numbers(numbers)), slots());
    let settings = QueueSettings { batch_size: 100, ..settings };
    let mut batches = QueueDataset::new(settings).unwrap().open(1).unwrap();
    let mut batch = Batch::of(&slots());
    let mut found = 0;
    let error = loop {
        match batches[0].next(&mut batch) {
            Ok(true) => found += 1,
            Ok(false) => panic!("the error is lost"),
            Err(error) => break error,
        }
    };
    assert_eq!((found, error.to_string()), (2, "a bad number".to_owned()));
}

/// An endless file that counts what was read of it.
struct Endless(Arc<AtomicUsize>, Arc<Mutex<()>>);

impl Input for Endless {
    fn files(&self) -> usize {
        1
    }

    fn open(&self, _: usize) -> Result<Box<dyn Rows>> {
        Ok(Box::new(Endless(Arc::clone(&self.0), Arc::clone(&self.1))))
    }
}

impl Rows for Endless {
    fn read(&mut self, out: &mut Samples, rows: usize) -> Result<bool> {
        let _held = self.1.lock().unwrap();
        for _ in 0..rows {
            push(out, self.0.fetch_add(1, Ordering::Relaxed) as u64);
        }
        Ok(true)
    }
}

#[test]
fn a_reader_is_ahead_by_the_buffer_and_no_more() {
    let read = Arc::new(AtomicUsize::new(0));
    let input = Arc::new(Endless(Arc::clone(&read), Arc::default()));
    let settings = QueueSettings { buffer_bytes: 10_000, ..QueueSettings::new(input, slots()) };
    let mut batches = QueueDataset::new(settings).unwrap().open(1).unwrap();
    let mut batch = Batch::of(&slots());
    for number in 0..2000 {
        assert!(batches[0].next(&mut batch).unwrap());
        assert_eq!(labels(&batch), [number]);
        // 10,000 bytes are at most 400 samples of 24 bytes and more; two blocks are under way.
        let ahead = read.load(Ordering::Relaxed) - number as usize;
        assert!(ahead < 400 + 2 * 256 + 2, "{ahead} samples ahead");
    }
}

#[test]
fn a_thread_that_waits_can_be_let_go() {
    let held = Arc::new(Mutex::new(()));
    let hold = held.lock().unwrap();
    let input = Arc::new(Endless(Arc::default(), Arc::clone(&held)));
    let settings = QueueSettings::new(input, slots());
    let mut batches = QueueDataset::new(settings).unwrap().open(1).unwrap();
    let closer = batches[0].closer();
    let mut batch = Batch::of(&slots());
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| batches[0].next(&mut batch));
        closer();
        assert!(matches!(waiting.join().unwrap(), Err(Error::Interrupted)));
    });
    drop(hold);
}

#[test]
fn what_cannot_be_read_is_refused() {
    let refused = |settings| QueueDataset::new(settings).err().map(|error| error.to_string());
    let empty = refused(settings(&[])).unwrap();
    assert!(empty.contains("no files"), "{empty}");
    let nothing = refused(QueueSettings { batch_size: 0, ..settings(&[0..1, 1..2]) }).unwrap();
    assert!(nothing.contains("batch size"), "{nothing}");
    assert!(refused(QueueSettings { readers: 0, ..settings(&[0..1, 1..2]) }).is_some());
}
